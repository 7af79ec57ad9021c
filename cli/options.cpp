#include "cli/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <sstream>
#include <utility>

#include "cli/exit_code.hpp"
#include "io/output_file.hpp"

namespace rowmax::cli {

namespace {

/// CLI11 cuts numbers that are too large down to the largest one.
template <class Integer>
CLI::Validator fits() {
    return {[](const std::string& text) {
                Integer value{};
                const char* first = text.data() + (text.starts_with('+') ? 1 : 0);
                const auto error = std::from_chars(first, text.data() + text.size(), value).ec;
                return error == std::errc::result_out_of_range ? text + " is out of range" : std::string();
            },
            ""};
}

}  // namespace

OptionRef& OptionRef::required() {
    option_->required();
    return *this;
}

OptionRef& OptionRef::show_default() {
    option_->capture_default_str();
    return *this;
}

OptionRef& OptionRef::one_of(const std::vector<std::string>& names) {
    option_->check(CLI::IsMember(names));
    return *this;
}

OptionRef& OptionRef::between(std::int64_t low, std::int64_t high) {
    option_->check(CLI::Range(low, high));
    return *this;
}

OptionRef& OptionRef::within(double low, double high) {
    option_->check(CLI::Range(low, high));
    // NaN is in every range by CLI11's comparison.
    option_->check(CLI::Validator(
        [](const std::string& text) { return std::isnan(std::strtod(text.c_str(), nullptr)) ? "not a number" : ""; },
        ""));
    return *this;
}

OptionRef& OptionRef::at_least(std::int64_t low) {
    return between(low, std::numeric_limits<std::int64_t>::max());
}

OptionRef& OptionRef::satisfies(std::string (*check)(const std::string&)) {
    option_->check(CLI::Validator(check, ""));
    return *this;
}

OptionRef& OptionRef::split_at_commas() {
    option_->delimiter(',');
    return *this;
}

OptionRef Command::add(const std::string& name, std::string& value, const std::string& help) {
    return OptionRef(app_->add_option(name, value, help));
}

OptionRef Command::add(const std::string& name, std::vector<std::string>& value, const std::string& help) {
    return OptionRef(app_->add_option(name, value, help));
}

OptionRef Command::add(const std::string& name, int& value, const std::string& help) {
    return OptionRef(app_->add_option(name, value, help)->check(fits<int>()));
}

OptionRef Command::add(const std::string& name, std::int64_t& value, const std::string& help) {
    return OptionRef(app_->add_option(name, value, help)->check(fits<std::int64_t>()));
}

OptionRef Command::add(const std::string& name, double& value, const std::string& help) {
    return OptionRef(app_->add_option(name, value, help));
}

OptionRef Command::add(const std::string& name, std::optional<std::int64_t>& value, const std::string& help) {
    return OptionRef(app_->add_option(name, value, help)->check(fits<std::int64_t>()));
}

OptionRef Command::add(const std::string& name, std::optional<std::string>& value, const std::string& help) {
    return OptionRef(app_->add_option(name, value, help));
}

void Command::add_flag(const std::string& name, bool& value, const std::string& help) {
    app_->add_flag(name, value, help);
}

void Command::set_footer(const std::string& text) {
    app_->footer(text);
}

void Command::runs(std::function<void()> action) {
    app_->callback(std::move(action));
}

Program::Program(const std::string& name, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, name)) {
    app_->require_subcommand(1);
}

Program::~Program() = default;

Command Program::add_command(const std::string& name, const std::string& description) {
    return Command(app_->add_subcommand(name, description));
}

void Program::set_version(const std::string& text) {
    app_->set_version_flag("--version", text);
}

void Program::set_footer(const std::string& text) {
    app_->footer(text);
}

int Program::run(int argc, char** argv) {
    // CLI11 would only say that a sub-command is missing.
    const auto named = [&](const CLI::App* command) { return command->check_name(argv[1]); };
    if (argc > 1 && argv[1][0] != '-' && std::as_const(*app_).get_subcommands(named).empty()) {
        throw UsageError(fmt::format("'{}' is not a command; `{} --help` lists them", argv[1], app_->get_name()));
    }
    try {
        app_->parse(argc, argv);
        return exit_ok;
    } catch (const CLI::ParseError& error) {
        std::ostringstream text;  // of --help and --version, which end here too
        if (app_->exit(error, text, std::cerr) != 0) return exit_usage;
        io::OutputFile out("-");
        out.write(text.str());
        out.commit();
        return exit_ok;
    }
}

}  // namespace rowmax::cli
