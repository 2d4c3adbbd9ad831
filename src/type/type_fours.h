/* type_fours.h: the 16 numbers that the codes of iq4_nl and iq4_xs mean: closer together where weights are many. */
#ifndef QKV_TYPE_FOURS_H
#define QKV_TYPE_FOURS_H

static const signed char type_fours[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

#endif
