/* lab.h: programs on top of libqkv: the benchmark, comparisons of models, and pages that show what is inside. The
 * command links them; they are not part of the library. They include qkv.h and those headers of the library that
 * docs/design.md names. */
#ifndef QKV_LAB_H
#define QKV_LAB_H

#include "lab/bench.h"   /* the speed of this machine */
#include "lab/compare.h" /* variants of a model side by side */
#include "lab/report.h"  /* attention on a text, training runs: numbers and pages */

#endif
