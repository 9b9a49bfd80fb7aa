// HeldLease, LeaderLoop and LeaseWatch as the behaviour suite drives them
// (tests/live/leases/handles_test.py; the protocol is in handles/lab.py).
//
// A command runs on a thread of its own, for some of them wait. The program ends with `quit` or the
// end of its input; handles that are still held go out of scope then.
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/leader_loop.hpp>
#include <termgate/lease_watch.hpp>

using namespace termgate;
using namespace std::chrono_literals;

namespace {

void say(std::string line) {
  static std::mutex mutex;
  for (char& c : line)
    if (c == '\n') c = ' ';
  const std::lock_guard lock(mutex);
  std::puts(line.c_str());
  std::fflush(stdout);
}

std::string decoded(std::string_view word) {
  std::string text;
  for (std::size_t at = 0; at < word.size(); ++at) {
    int value = word[at];
    if (word[at] == '%') {
      std::from_chars(word.data() + at + 1, word.data() + at + 3, value, 16);
      at += 2;
    }
    text += static_cast<char>(value);
  }
  return text;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t end = 0; end != std::string_view::npos;
       line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1)) {
    end = line.find('\t');
    words.push_back(decoded(line.substr(0, end)));
  }
  return words;
}

struct Loop {
  std::unique_ptr<LeaderLoop> loop = {};
  std::unique_ptr<LeaseWatch> watch = {};
  std::atomic<bool> fails{false};
};

class Player {
 public:
  void play(const std::vector<std::string>& words) {
    const std::string &command = words.at(0), &name = words.at(1);
    try {
      if (command == "hold") {
        hold(name, words.at(2), words.at(4), std::chrono::milliseconds(std::stoll(words.at(5))),
             std::chrono::milliseconds(std::stoll(words.at(6))), words.at(7), words.at(8));
      } else if (command == "held") {
        say(name + (handle(words.at(2)).still_held() ? "\ttrue" : "\tfalse"));
      } else if (command == "release") {
        say(name + "\treleased\t" + (handle(words.at(2)).release() ? "true" : "false"));
      } else if (command == "write") {
        const HeldLease& held = handle(words.at(2));
        database(words.at(3)).write(held.scope(), held.term(), [&](Transaction& tx) {
          tx.exec(fmt::format("INSERT INTO written VALUES ({})", words.at(4)));
        });
        say(name + "\twritten");
      } else if (command == "lead") {
        lead(name, words.at(2), words.at(4), std::chrono::milliseconds(std::stoll(words.at(5))));
      } else if (command == "watch") {
        watch(name, words.at(2), words.at(4), std::chrono::milliseconds(std::stoll(words.at(5))));
      } else if (command == "stop") {
        say(name + "\tok");
        loop(words.at(2)).watch.reset();
        if (loop(words.at(2)).loop) loop(words.at(2)).loop->stop();
        say(words.at(2) + "\tdone");
      } else {
        say(name + "\tok");
        loop(words.at(2)).fails = true;
      }
    } catch (const Blocked&) { say(name + "\tblocked"); } catch (const Error& error) {
      say(fmt::format("{}\terror\t{}\t{}", name, error.code(), error.what()));
    } catch (const std::exception& error) {
      say(fmt::format("{}\terror\t\t{}", name, error.what()));
    }
  }

 private:
  Database database(const std::string& url) {
    const std::lock_guard lock(mutex_);
    OpenOptions options;
    options.answer_wait = 2s;  // or a release waits for a frozen database
    return databases_.try_emplace(url, Database::open(url, options)).first->second;
  }

  HeldLease& handle(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return handles_.at(name);
  }

  Loop& loop(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return loops_[name];
  }

  void hold(const std::string& name, const std::string& url, const std::string& scope,
            std::chrono::milliseconds ttl, std::chrono::milliseconds wait, const std::string& owner,
            const std::string& endpoint) {
    HoldOptions options;
    options.ttl = ttl;
    options.wait = wait;
    options.owner = owner;
    options.endpoint = endpoint;
    HeldLease held = database(url).hold(Scope(scope), options);
    const std::stop_token lost = held.lost(), asked = held.asked_to_leave();
    const std::string news =
        fmt::format("{}\theld\t{}\t{}", name, held.term().value(), held.owner());
    {
      const std::lock_guard lock(mutex_);
      handles_.emplace(name, std::move(held));
    }
    say(news);
    const std::stop_callback wanted(asked, [&] { say(name + "\tasked"); });
    const std::stop_callback signalled(lost, [&] { say(name + "\tlost"); });
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait(lock, lost, [] { return false; });
  }

  void lead(const std::string& name, const std::string& url, const std::string& scope,
            std::chrono::milliseconds ttl) {
    Loop& mine = loop(name);
    LeaderOptions options;
    options.ttl = ttl;
    options.news = [name, &mine](const LeaderNews& news) {
      if (news.kind != LeaderNews::Kind::work_failed) return;
      mine.loop->request_stop();
      try {
        std::rethrow_exception(news.error);
      } catch (const std::exception& error) {
        say(fmt::format("{}\terror\t\t{}", name, error.what()));
      }
    };
    const auto work = [name, &mine](const Leadership& leads) {
      say(fmt::format("{}\tleading\t{}", name, leads.term().value()));
      while (!leads.stop_requested()) {
        if (mine.fails) throw std::runtime_error("the work failed");
        std::this_thread::sleep_for(10ms);
      }
      say(name + "\tstopped");
    };
    mine.loop = std::make_unique<LeaderLoop>(database(url), Scope(scope), work, std::move(options));
  }

  void watch(const std::string& name, const std::string& url, const std::string& scope,
             std::chrono::milliseconds poll) {
    const auto changed = [name](const std::optional<LeaseInfo>& leader) {
      say(leader ? fmt::format("{}\tnow\t{}\t{}\t{}", name, leader->owner, leader->term,
                               leader->endpoint)
                 : name + "\tnow");
    };
    loop(name).watch = std::make_unique<LeaseWatch>(database(url), Scope(scope), changed, poll);
  }

  std::mutex mutex_;
  std::map<std::string, Database> databases_;
  std::map<std::string, HeldLease> handles_;
  std::map<std::string, Loop> loops_;
};

}  // namespace

int main() {
  // The threads that wait for a signal outlive main()'s block; what they use is never destroyed.
  auto* player = new Player;
  for (std::string line; std::getline(std::cin, line) && line != "quit";)
    std::thread([player, words = words_of(line)] { player->play(words); }).detach();
  delete player;
  say("player\tgone");
  std::_Exit(0);
}
