// rowmax, the command: parses, runs one sub-command, turns the outcome into an exit code.
#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <new>

#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/options.hpp"
#include "cli/shared.hpp"
#include "cli/signals.hpp"
#include "rowmax/error.hpp"
#include "rowmax/maxsim.hpp"

namespace {

using namespace rowmax;

void declare(cli::Program& program) {
    program.set_version(fmt::format("rowmax {}", version()));
    program.set_footer(
        "A first walk, from token embeddings to a ranked and measured run:\n"
        "  rowmax pack docs.npy -o docs.rmx\n"
        "  rowmax search queries.npy docs.rmx -k 100 -o run.trec\n"
        "  rowmax eval qrels.txt run.trec\n"
        "  rowmax explain queries.npy docs.rmx --query 0 --document 17 --html why.html\n"
        "\nResults go to standard output or to -o FILE (written whole or not at all); progress and messages to "
        "standard "
        "error.\nExit codes: 0 ok, 2 usage, 3 data or files, 4 device, 130 interrupted.\n"
        "`rowmax COMMAND --help` explains a command with examples.");
    cli::add_search(program);
    cli::add_score(program);
    cli::add_explain(program);
    cli::add_pack(program);
    cli::add_inspect(program);
    cli::add_eval(program);
    cli::add_bench(program);
    cli::add_kernels(program);
    cli::add_selftest(program);
    cli::add_doctor(program);
}

int report(cli::ExitCode code, const std::string& message) {
    cli::say(message);
    return code;
}

int run(cli::Program& program, int argc, char** argv) {
    try {
        return program.run(argc, argv);
    } catch (const cli::UsageError& error) {
        return report(cli::exit_usage, error.what());
    } catch (const cli::Failed& failed) {
        return failed.code;
    } catch (const cli::Interrupted&) {
        return report(cli::exit_interrupted, "interrupted");
    } catch (const Error& error) {
        return report(cli::exit_code(error.code()), error.what());
    } catch (const std::bad_alloc&) {
        return report(cli::exit_device, "out of memory");
    } catch (const std::filesystem::filesystem_error& error) {
        return report(cli::exit_data, fmt::format("{}: {}", error.path1().string(), error.code().message()));
    } catch (const std::exception& error) {
        return report(cli::exit_internal, fmt::format("internal fault: {}", error.what()));
    }
}

}  // namespace

int main(int argc, char** argv) {
    cli::install_signal_handlers();
    cli::Program program("rowmax",
                         "Late-interaction scoring (MaxSim): search, score and explain with token embeddings.");
    declare(program);
    return run(program, argc, argv);
}
