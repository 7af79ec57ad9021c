// The sub-commands. Each add_ function declares one sub-command's options and what runs when it is named;
// each lives in the file of its name.
#pragma once

namespace rowmax::cli {

class Program;

void add_search(Program& program);
void add_score(Program& program);
void add_explain(Program& program);
void add_pack(Program& program);
void add_inspect(Program& program);
void add_eval(Program& program);
void add_bench(Program& program);
void add_kernels(Program& program);
void add_selftest(Program& program);
void add_doctor(Program& program);

}  // namespace rowmax::cli
