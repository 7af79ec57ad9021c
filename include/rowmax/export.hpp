// Symbol visibility: everything public is marked, everything else stays inside the library.
#pragma once

#if defined(ROWMAX_STATIC)
#define ROWMAX_API
#else
#define ROWMAX_API __attribute__((visibility("default")))
#endif
