// Declaring options. A thin face over CLI11, whose headers take seconds to compile: only options.cpp includes them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rowmax::cli {

/// One declared option; what it must satisfy can be said in a chain.
class OptionRef {
  public:
    explicit OptionRef(CLI::Option* option) : option_(option) {}
    OptionRef& required();
    OptionRef& show_default();
    OptionRef& one_of(const std::vector<std::string>& names);
    OptionRef& between(std::int64_t low, std::int64_t high);
    OptionRef& within(double low, double high);
    OptionRef& at_least(std::int64_t low);
    /// `check` says what is wrong with the text, or nothing.
    OptionRef& satisfies(std::string (*check)(const std::string&));
    OptionRef& split_at_commas();

  private:
    CLI::Option* option_;
};

/// A sub-command. Names are CLI11's: "-o,--output", or "queries" for a positional argument.
class Command {
  public:
    explicit Command(CLI::App* app) : app_(app) {}
    OptionRef add(const std::string& name, std::string& value, const std::string& help);
    OptionRef add(const std::string& name, std::vector<std::string>& value, const std::string& help);
    OptionRef add(const std::string& name, int& value, const std::string& help);
    OptionRef add(const std::string& name, std::int64_t& value, const std::string& help);
    OptionRef add(const std::string& name, double& value, const std::string& help);
    OptionRef add(const std::string& name, std::optional<std::int64_t>& value, const std::string& help);
    OptionRef add(const std::string& name, std::optional<std::string>& value, const std::string& help);
    void add_flag(const std::string& name, bool& value, const std::string& help);
    void set_footer(const std::string& text);
    /// What runs when the command line names this command.
    void runs(std::function<void()> action);

  private:
    CLI::App* app_;
};

/// The program: its sub-commands, and the reading of a command line.
class Program {
  public:
    Program(const std::string& name, const std::string& description);
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    Command add_command(const std::string& name, const std::string& description);
    void set_version(const std::string& text);
    void set_footer(const std::string& text);

    /// Reads the command line and runs its command. Returns exit_ok, or exit_usage after saying what is wrong; what
    /// the command throws passes through.
    int run(int argc, char** argv);

  private:
    std::unique_ptr<CLI::App> app_;
};

}  // namespace rowmax::cli
