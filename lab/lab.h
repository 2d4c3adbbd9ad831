/* lab.h: products made with libqkv: the benchmark, comparisons of models, and pages that show what is inside. They are linked into
 * the command, and no part of the library: they see qkv.h, and of the library's own headers those that docs/design.md names. */
#ifndef QKV_LAB_H
#define QKV_LAB_H

#include "lab/bench.h"   /* the speed of this machine */
#include "lab/compare.h" /* variants of a model side by side */
#include "lab/report.h"  /* attention on a text, training runs: numbers and pages */

#endif
