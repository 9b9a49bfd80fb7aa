// Runs a fuzz target over the files and folders that it is given: how the corpora are replayed in every test
// run, by compilers without libFuzzer. Fails when it found no file. --whole: inputs that are no messages but lists of choices are not cut.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  int files = 0;
  const bool whole = argc > 1 && std::string_view(argv[1]) == "--whole";
  auto run = [&](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    // Every input again cut at each of its first bytes: half a message is the commonest bad one.
    for (std::size_t length = whole ? bytes.size() : 0; length <= bytes.size(); length = length < 256 || length == bytes.size() ? length + 1 : bytes.size()) {
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), length);
    }
    ++files;
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
  std::printf("%d inputs replayed\n", files);
  return files > 0 ? 0 : 1;
}
