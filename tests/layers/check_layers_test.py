#!/usr/bin/env python3
"""The layer rules catch what they are for."""

import unittest

from check_layers import check_file


def faults(path, text):
    return list(check_file(path, text))


class IncludeRules(unittest.TestCase):
    def test_a_layer_sees_only_what_is_below(self):
        for path, header in (
            ("src/core/plan.cpp", "cpu/pool.hpp"),
            ("src/core/plan.cpp", "io/npy.hpp"),
            ("src/cpu/table.cpp", "cuda/table.hpp"),
            ("src/cuda/table.cpp", "cpu/pool.hpp"),
            ("src/io/npy.cpp", "stream/search.hpp"),
            ("src/capi/rowmax.cpp", "core/problem.hpp"),
            ("include/rowmax/maxsim.hpp", "core/params.hpp"),
            ("cli/main.cpp", "capi/status.hpp"),
        ):
            for line in (f'#include "{header}"\n', f"#  include <{header}>\n"):
                with self.subTest(path=path, line=line):
                    self.assertTrue(any("may not include" in fault for fault in faults(path, line)))

    def test_no_way_around_the_names(self):
        for header in ("../../cuda/table.hpp", "./../io/npy.hpp", "kernels/../../io/npy.hpp"):
            with self.subTest(header=header):
                self.assertTrue(faults("src/cpu/table.cpp", f'#include "{header}"\n'))

    def test_a_new_layer_must_be_declared(self):
        self.assertTrue(faults("src/ranking/table.cpp", "int x;\n"))

    def test_layers_below_may_be_seen(self):
        for path, header in (
            ("src/cpu/table.cpp", "core/registry.hpp"),
            ("src/stream/search.cpp", "io/npy.hpp"),
            ("cli/search.cpp", "stream/search.hpp"),
            ("tests/cpu/tile_test.cpp", "cpu/kernels/tile.hpp"),
        ):
            with self.subTest(path=path, header=header):
                self.assertEqual(faults(path, f'#include "{header}"\n'), [])

    def test_public_headers_need_only_the_standard_library(self):
        self.assertTrue(faults("include/rowmax/corpus.hpp", "#include <fmt/format.h>\n"))
        self.assertEqual(faults("include/rowmax/rowmax.h", "#include <stdint.h>\n#include <string_view>\n"), [])


class ContentRules(unittest.TestCase):
    def test_intrinsics_live_in_prim(self):
        for line in (
            "x = _mm256_add_ps(a, b);", "__m512d x;", "y = vfmaq_f32(a, b, c);", 'asm volatile("nop");', '__asm("nop");',
            "#include <immintrin.h>", '#include "emmintrin.h"', "#include <arm_neon.h>",
        ):  # fmt: skip
            with self.subTest(line=line):
                self.assertTrue(faults("src/cpu/kernels/tile.hpp", line + "\n"))
                self.assertEqual(faults("src/cpu/prim/vec_avx2.hpp", line + "\n"), [])

    def test_python_headers_live_under_python(self):
        for header in ("<nanobind/nanobind.h>", '"torch/extension.h"', "<Python.h>"):
            with self.subTest(header=header):
                self.assertTrue(faults("src/io/npy.cpp", f"#include {header}\n"))
                self.assertEqual(faults("python/binding/module.cpp", f"#include {header}\n"), [])

    def test_the_library_is_silent(self):
        for line in (
            "std::cout << 1;", 'printf("x");', 'fmt::print("x");', 'fmt::println("x");', 'std::fputs("x", stderr);',
            "dup(STDERR_FILENO);", "exit(1);", "std::abort();", "std::_Exit(1);", "__builtin_trap();", "assert(x);",
        ):  # fmt: skip
            with self.subTest(line=line):
                self.assertTrue(faults("src/core/error.cpp", line + "\n"))
                self.assertEqual(faults("cli/main.cpp", line + "\n"), [])

    def test_words_in_comments_and_strings_are_free(self):
        text = '// exit(1) would be rude\nconst char* text = "abort(1)"; int snprintf(int); line.exit(2);\n'
        self.assertEqual(faults("src/core/error.cpp", text), [])

    def test_macros_make_no_code(self):
        self.assertTrue(faults("src/cpu/table.cpp", "#define ROW(Ops, Type) row<Ops, Type>()\n"))
        self.assertEqual(faults("src/cpu/prim/unroll.hpp", "#define ROWMAX_INLINE inline __attribute__((always_inline))\n"), [])

    def test_long_files(self):
        self.assertEqual(faults("src/core/a.cpp", "\n" * 500), [])
        self.assertTrue(faults("src/core/a.cpp", "\n" * 501))


if __name__ == "__main__":
    unittest.main()
