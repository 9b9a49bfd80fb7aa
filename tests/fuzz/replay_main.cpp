// Runs a fuzz target over the files and folders that it is given: how the corpora are replayed in
// every test run, by compilers without libFuzzer. A file called found.bin holds many inputs
// (corpus.py). Fails when it found no input, or when found.bin was cut short. --whole: inputs that
// are not messages but lists of choices are not cut.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  int inputs = 0;
  const bool whole = argc > 1 && std::string_view(argv[1]) == "--whole";
  bool cut_short = false;
  auto run_input = [&](std::string_view bytes) {
    // Every input again cut at each of its first bytes: half a message is the commonest bad one.
    for (std::size_t length = whole ? bytes.size() : 0; length <= bytes.size();
         length = length < 256 || length == bytes.size() ? length + 1 : bytes.size()) {
      // A copy of its own, so that a sanitizer sees a read behind its end.
      const std::vector<std::uint8_t> input(bytes.begin(),
                                            bytes.begin() + static_cast<std::ptrdiff_t>(length));
      LLVMFuzzerTestOneInput(input.data(), input.size());
    }
    ++inputs;
  };
  auto run = [&](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    if (path.filename() != "found.bin") return run_input(bytes);
    for (std::size_t at = 0; at < bytes.size();) {
      std::size_t length = 0;
      for (std::size_t i = 0; i < 4 && at + i < bytes.size(); ++i)
        length |= std::size_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
      if (bytes.size() - at < 4 || bytes.size() - at - 4 < length) {
        std::fprintf(stderr, "%s: cut short\n", path.c_str());
        cut_short = true;
        return;
      }
      run_input(std::string_view(bytes).substr(at + 4, length));
      at += 4 + length;
    }
  };
  for (int i = whole ? 2 : 1; i < argc; ++i) {
    if (std::filesystem::is_directory(argv[i])) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
        if (entry.is_regular_file()) run(entry.path());
      }
    } else {
      run(argv[i]);
    }
  }
  std::printf("%d inputs replayed\n", inputs);
  return inputs > 0 && !cut_short ? 0 : 1;
}
