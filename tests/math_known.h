/* math_known.h: results of sin, cos and pow for test_math.c, computed by mpmath with 400 bits and more: angles next to
 * multiples of π/2, large angles, and powers that are next to the middle between two doubles. */
#ifndef QKV_TEST_MATH_KNOWN_H
#define QKV_TEST_MATH_KNOWN_H

struct known {
    double x, y;      /* the arguments; y is only of pow */
    double high, low; /* the result is nearest to `high`, and `low` is the difference, as far as a double can say it */
};

static const struct known sine_known[] = {
    {0x1.6ac5b262ca1ffp+849, 0, 0x1p+0, -0x1.2b089ea1e692bp-123},
    {0x1.6c6cbc45dc8dep+5, 0, 0x1p+0, -0x1.04bfe27f01e31p-122},
    {0x1.6ac5b262ca1ffp+850, 0, -0x1.14ae72e6ba22fp-60, 0x1.73eef1477d90ep-117},
    {0x1.6c6cbc45dc8dep+6, 0, -0x1.6d61b58c99c43p-60, 0x1.d8d2a16b7bd6ep-117},
    {0x1.b951f1572eba5p+23, 0, -0x1p+0, 0x1.ead7c8117d252p-120},
    {0x1.504cac51f1eafp+131, 0, -0x1p+0, 0x1.1a0d9b854a60fp-119},
    {0x1.6ac5b262ca1ffp+851, 0, 0x1.14ae72e6ba22fp-59, -0x1.73eef1477d90ep-116},
    {0x1.e009c53148be1p+991, 0, 0x1p+0, -0x1.59627ccbae913p-119},
    {0x1.6c6cbc45dc8dep+7, 0, 0x1.6d61b58c99c43p-59, -0x1.d8d2a16b7bd6ep-116},
    {0x1.b951f1572eba5p+24, 0, 0x1.f54f5227a4e84p-59, -0x1.01b19345a7a1cp-117},
    {0x1.782b7a20df6d4p+67, 0, -0x1p+0, 0x1.17a73717b591fp-116},
    {0x1.b951f1572eba5p+25, 0, -0x1.f54f5227a4e84p-58, 0x1.01b19345a7a1cp-116},
    {0x1p+1023, 0, 0x1.205248cbdb76p-1, -0x1.a5a336baf7435p-57},
    {0x1.fffffffffffffp+1023, 0, 0x1.452fc98b34e97p-8, -0x1.27bb193d960dfp-62},
    {0x1p+20, 0, 0x1.526ccb2fc8656p-2, -0x1.312bfebafe1dfp-56},
    {0x1.fffffffffffffp+19, 0, 0x1.526ccb2de52a8p-2, 0x1.504f1937c75e9p-59},
    {0x1.0f0cf064dd592p+73, 0, -0x1.b453ab76bf397p-1, -0x1.f453790772648p-58},
    {0x1.3bfefa65abb83p+52, 0, -0x1.ed3031a77835cp-1, -0x1.7299be726b8a1p-56},
    {-0x1.7e43c8800759cp+996, 0, 0x1.a2c16b010e385p-1, 0x1.b900a1f54ecd2p-55},
    {0x1.e54e952e6b438p+176, 0, 0x1.73db5be851b5fp-1, 0x1.eca015c8cafb9p-55},
    {0x1.4d4746513270ep+71, 0, 0x1.7b3a76a14d129p-2, -0x1.db5fab80414f9p-58},
    {0x1.a47e1128b2f33p+570, 0, 0x1.7f23e7e5dc741p-2, 0x1.0f498c0a4dccdp-56},
};

static const struct known cosine_known[] = {
    {0x1.6ac5b262ca1ffp+849, 0, -0x1.14ae72e6ba22fp-61, 0x1.73eef1477d90ep-118},
    {0x1.6c6cbc45dc8dep+5, 0, -0x1.6d61b58c99c43p-61, 0x1.d8d2a16b7bd6ep-118},
    {0x1.6ac5b262ca1ffp+850, 0, -0x1p+0, 0x1.2b089ea1e692bp-121},
    {0x1.6c6cbc45dc8dep+6, 0, -0x1p+0, 0x1.04bfe27f01e31p-120},
    {0x1.b951f1572eba5p+23, 0, -0x1.f54f5227a4e84p-60, 0x1.01b19345a7a1cp-118},
    {0x1.504cac51f1eafp+131, 0, -0x1.0cb604d34f341p-59, -0x1.2e51c38885849p-114},
    {0x1.6ac5b262ca1ffp+851, 0, 0x1p+0, -0x1.2b089ea1e692bp-119},
    {0x1.e009c53148be1p+991, 0, 0x1.295a3b0a64b1dp-59, 0x1.25276cf078901p-113},
    {0x1.6c6cbc45dc8dep+7, 0, 0x1p+0, -0x1.04bfe27f01e31p-118},
    {0x1.b951f1572eba5p+24, 0, -0x1p+0, 0x1.ead7c8117d252p-118},
    {0x1.782b7a20df6d4p+67, 0, -0x1.7a6500ca6d83bp-58, 0x1.f4a73e766940fp-113},
    {0x1.b951f1572eba5p+25, 0, 0x1p+0, -0x1.ead7c8117d252p-116},
    {0x1p+1023, 0, -0x1.a719f26c232bfp-1, 0x1.7a77829eb1138p-55},
    {0x1.fffffffffffffp+1023, 0, -0x1.fffe62ecfab75p-1, -0x1.e038d934070f1p-56},
    {0x1p+20, 0, 0x1.e33ada92fe2aep-1, -0x1.420bfaf737b2dp-57},
    {0x1.fffffffffffffp+19, 0, 0x1.e33ada9352c61p-1, 0x1.89a9b70444bdep-57},
    {0x1.0f0cf064dd592p+73, 0, 0x1.0be2cef01c8f4p-1, -0x1.b2d1bc8018c4fp-55},
    {0x1.3bfefa65abb83p+52, 0, -0x1.1305c1e7dcca9p-2, -0x1.ec1d0ae71a6e9p-57},
    {-0x1.7e43c8800759cp+996, 0, -0x1.2699022adc4c1p-1, 0x1.edd5594b5c574p-56},
    {0x1.e54e952e6b438p+176, 0, -0x1.5ff259ca2aa82p-1, 0x1.eb7b6d6d1fab1p-55},
    {0x1.4d4746513270ep+71, 0, -0x1.db98480541769p-1, -0x1.81fcf90ac9679p-55},
    {0x1.a47e1128b2f33p+570, 0, -0x1.dacf744b9a66ap-1, -0x1.dd0415ef18927p-55},
};

static const struct known pow_known[] = {
    {0x1.7a3229ed49c3ep+0, -0x1.8ddd83c6a6268p+8, 0x1.0106d79eb6bcp-224, 0x1.fffa091ca65ap-278},
    {0x1.fdeeb00a79f5p+0, -0x1.8b8c29c799e5cp+7, 0x1.4d55652ce47cdp-197, -0x1.ffe2c46c669c9p-251},
    {0x1.356980ceb2e33p-1, 0x1.1961bbd3ec49ep+9, 0x1.101daf8a75a34p-409, 0x1.ffca735d30f8fp-463},
    {0x1.8005955d46278p+16, -0x1.23b84754450f8p+1, 0x1.26683037fa25ap-38, -0x1.fff9b1c31b54ap-92},
    {0x1.e200574f68a64p+15, -0x1.8dfe080f3afe8p+4, 0x1.20e6643b731cbp-396, -0x1.fff79fd9ea118p-450},
    {0x1.92fcaff46bbaep+15, 0x1.b9dd1700e456p+4, 0x1.4098cf8bf9cd5p+432, 0x1.ffea1236c8144p+378},
    {0x1.388p+13, -0x1.bcep-1, 0x1.5ec35e8cf331fp-12, -0x1.ffead3d4529f3p-66},
    {0x1.388p+13, -0x1.dbcp-1, 0x1.928feed5dc2f9p-13, 0x1.ffe22a74e670ep-67},
    {0x1.0000000000001p+0, 0x1.62e42fefa39efp+61, 0x1.ffffffffffc64p+1023, 0x1.4ab91bb3d15c1p+969},
    {0x1.fffffffffffffp-1, 0x1.62e42fefa39efp+61, 0x1.fffffffffffbap-513, -0x1.fe7c2baf38c53p-567},
    {0x1.fffffffffffffp-1, -0x1.62p+62, 0x1.586f6bf260ddfp+1021, -0x1.258e914266b5ep+966},
    {0x1.fffffffffffffp+1023, 0x1.fff2e48e8a71ep-1, 0x1.dceb39d9e4e63p+1023, -0x1.ade798202466cp+965},
    {0x0.0000000000001p-1022, 0x1.fff2e48e8a71ep-1, 0x0.0000000000001p-1022, 0},
    {0x0.0000000000001p-1022, -0x1.ccccccccccccdp-1, 0x1.8406003b2aecdp+966, 0x1.0679214bc36a9p+912},
    {0x1.4p+3, 0x1.34p+8, 0x1.1ccf385ebc8ap+1023, -0x1.c2a3c3d855605p+966},
    {0x1.4p+3, -0x1.33p+8, 0x1.1fa182c40c60dp-1020, 0x0.0000000000002p-1022},
    {0x1.4p+3, -0x1.4p+8, 0x0.00000000007e8p-1022, 0},
    {0x1.8p+1, -0x1.454p+9, 0x0.007e674fae62bp-1022, 0},
    {0x1.000001ad7f29bp+0, 0x1.dcd65p+29, 0x1.349445c228792p+144, -0x1.24a322a01718bp+90},
    {0x1.ffffde7210be9p-1, -0x1.4dc938p+29, 0x1.d97049968052fp+1009, -0x1.6be289acf2de1p+955},
    {0x1.6a09e667f3bcdp+0, 0x1.f44p+10, 0x1.6a09e667f3f34p+1000, -0x1.fb24c3c7f8832p+945},
    {0x1.6a09e667f3bccp-1, 0x1.f44p+10, 0x1.6a09e667f3763p-1001, -0x0.000000007ec93p-1022},
    {0x1p+1, 0x1p-1, 0x1.6a09e667f3bcdp+0, -0x1.bdd3413b26456p-54},
    {0x1.8p+0, -0x1p+0, 0x1.5555555555555p-1, 0x1.5555555555555p-55},
    {0x1.4p+3, 0x1.6p+4, 0x1.0f0cf064dd592p+73, 0},
    {0x1.4p+3, 0x1.7p+4, 0x1.52d02c7e14af6p+76, 0x1p+23},
};

#endif
