/* SPDX-License-Identifier: MIT */
/* test_number.c - numbers from and to text, against the C library in the C locale; samples of pixels. */
#include "test.h"

#include "zenith_number.h"

#include <float.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>

enum { RANDOM = INSTRUMENTED ? 2000 : 10000 };

static uint64_t random_bits(void)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static double from_bits(uint64_t bits)
{
    double v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

static bool same(double a, double b)
{
    return !memcmp(&a, &b, sizeof a);
}

/* The same value and the same end as strtod's. */
static void like_strtod(const char *text)
{
    const char *end = NULL;
    char *its;
    double got = 0, want = strtod(text, &its);

    CHECK(zn_number_parse(&got, text, &end) == !isinf(want), "'%.60s' was %s", text, isinf(want) ? "taken" : "refused");
    CHECK(isinf(want) || (same(got, want) && end == its), "'%.60s' is %.17g, not %.17g", text, got, want);
}

/* The digits of a number without its point, exponent and zeros at the ends. */
static void digits_of(char *digits, const char *text)
{
    char *last = digits;

    for (; *text && *text != 'e'; text++)
        if (*text >= '0' && *text <= '9' && (last != digits || *text != '0'))
            *last++ = *text;
    while (last > digits && last[-1] == '0')
        last--;
    *last = 0;
}

static void there_and_back(double v)
{
    char text[ZN_NUMBER_SIZE], usual[40], digits[40], wanted[40];
    double got = 0;

    zn_number_print(text, v);
    CHECK(zn_number_parse(&got, text, NULL) && same(got, v), "%.17g was written as %s and read as %.17g", v, text, got);
    TRY(like_strtod(text));
    for (int n = 1; n <= 17; n++) { /* the fewest digits, of these the nearest */
        snprintf(usual, sizeof usual, "%.*e", n - 1, v);
        if (strtod(usual, NULL) == v)
            break;
    }
    digits_of(digits, text);
    digits_of(wanted, usual);
    CHECK(!strcmp(digits, wanted), "%.17g is %s, not %s", v, usual, text);
}

static void test_edges(void)
{
    static const char *const texts[] = { "0",
                                         "-0",
                                         "1",
                                         "+1",
                                         "25",
                                         "0.5",
                                         ".5",
                                         "5.",
                                         "12.500",
                                         "1e3",
                                         "1E+3",
                                         "1e-3",
                                         "1e",
                                         "1e+",
                                         "1.5.2",
                                         "12abc",
                                         "1e400",
                                         "-1e400",
                                         "1e-400",
                                         "1e999999999999",
                                         "1e-999999999999",
                                         "0e999999999999",
                                         "1.7976931348623157e308",
                                         "1.7976931348623158e308",
                                         "1.7976931348623159e308",
                                         "17976931348623158e292",
                                         "4.9406564584124654e-324",
                                         "2.4703282292062327e-324",
                                         "2.4703282292062328e-324",
                                         "2.2250738585072011e-308",
                                         "2.2250738585072014e-308",
                                         "9007199254740993",
                                         "9007199254740992.999999999999999999999999",
                                         "9007199254740993.00000001",
                                         "0.1",
                                         "0.10000000000000000555",
                                         "123456789012345678901234567890",
                                         "000000000000000000000000001" };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        TRY(like_strtod(texts[i]));
}

/* Half way between two doubles the digits are long; what follows far behind them decides. */
static void test_half_way(void)
{
    char text[1300];

    for (int i = 0; i < RANDOM / 20; i++) {
        const int e = (int)(random_bits() % 900) - 450;
        const long double middle = ldexpl((long double)(random_bits() >> 11) + 0.5L, e);
        const int n = snprintf(text, 1200, "%.*Lf", e < 2 ? 2 - e : 1, middle);

        TRY(like_strtod(text));
        strcpy(text + n, "00000000000000000001");
        TRY(like_strtod(text));
        text[n - 1] = text[n - 1] == '0' ? '0' : (char)(text[n - 1] - 1);
        TRY(like_strtod(text));
    }
}

static void test_random_doubles(void)
{
    const volatile long double small = DBL_MIN;

    /* mingw-w64's printf() relies on the 80 bits of x87, for which some emulators take 64 */
    if (LDBL_MIN_EXP < DBL_MIN_EXP && !(small * small > 0))
        SKIP("this emulator has no long double, and so printf() no small doubles");
    for (int i = 0; i < RANDOM; i++) {
        const double v = from_bits(random_bits());

        if (isfinite(v))
            TRY(there_and_back(v));
    }
    for (int i = 0; i < RANDOM; i++) {
        TRY(there_and_back((double)(random_bits() % 200000) / 1000));             /* of a slider */
        TRY(there_and_back((double)(float)((double)(random_bits() % 1000) / 7))); /* a float */
        TRY(there_and_back(from_bits(random_bits() >> 12)));                      /* too small for all digits */
    }
    TRY(there_and_back(DBL_MAX));
    TRY(there_and_back(-DBL_MAX));
    TRY(there_and_back(DBL_MIN));
    TRY(there_and_back(from_bits(1)));
    TRY(there_and_back(1e22));
    TRY(there_and_back(1e23));
    TRY(there_and_back(5e-324));
    TRY(there_and_back(9007199254740992.0));
}

static void test_random_texts(void)
{
    char text[64];

    for (int i = 0; i < RANDOM; i++) {
        const int n = 1 + (int)(random_bits() % 40), point = (int)(random_bits() % 41);
        int at = 0;

        for (int k = 0; k < n; k++) {
            if (k == point)
                text[at++] = '.';
            text[at++] = (char)('0' + random_bits() % 10);
        }
        snprintf(text + at, sizeof text - (size_t)at, "e%d", (int)(random_bits() % 700) - 350);
        TRY(like_strtod(text));
    }
}

static void test_refused(void)
{
    static const char *const texts[] = { "",      "+",        "-",   ".",      "-.",     "e5",   "inf",
                                         "-inf",  "infinity", "nan", "NAN(1)", " 1",     "1 ",   "1,5",
                                         "0x1p3", "--1",      "+-1", "1e400",  "-2e308", "1e5x", "1..2" };
    double v = 7;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK(!zn_number_parse(&v, texts[i], NULL) && v == 7, "'%s' was read as %g", texts[i], v);
}

/* A million digits are as good as ten. */
static void test_long(void)
{
    enum { N = 1000000 };
    char *text = malloc(N + 8);
    double v = 0;

    memset(text, '0', N);
    strcpy(text + N, "1");
    CHECK(zn_number_parse(&v, text, NULL) && v == 1, "%g", v);
    text[0] = '.';
    CHECK(zn_number_parse(&v, text, NULL) && v == 0, "%g", v);
    memset(text, '9', N);
    CHECK(!zn_number_parse(&v, text, NULL), "%g", v);
    text[1] = '.';
    CHECK(zn_number_parse(&v, text, NULL) && v == 10, "%g", v);
    text[0] = '1', text[1] = 'e';
    CHECK(!zn_number_parse(&v, text, NULL), "%g", v);
    free(text);
}

static void test_printed(void)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = { { 0, "0" },
                  { -0.0, "-0" },
                  { 25, "25" },
                  { 0.15, "0.15" },
                  { -12.5, "-12.5" },
                  { 1e-4, "0.0001" },
                  { 1e-5, "1e-05" },
                  { 1e16, "1e+16" },
                  { 123456789, "123456789" },
                  { 1.0 / 3, "0.3333333333333333" } };
    char text[ZN_NUMBER_SIZE];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(!strcmp(zn_number_print(text, cases[i].v), cases[i].text), "%s, not %s", text, cases[i].text);
    CHECK(!strcmp(zn_number_print(text, INFINITY), "inf") && !strcmp(zn_number_print(text, NAN), "nan"), "%s", text);
}

/* All samples come back; a float becomes the nearest one, halves the larger. */
static void samples(int bytes)
{
    const int most = bytes == 1 ? 255 : 65535;
    float v[4] = { 0 }, want;
    uint16_t raw = 0, k;
    int bad = 0;

    for (int i = 0; i <= most; i++) {
        uint8_t small = (uint8_t)i;

        k = (uint16_t)i;
        zn_samples_read(v, 1, bytes == 1 ? (void *)&small : (void *)&k, 1, 1, bytes);
        want = (float)i / (float)most;
        bad += v[0] != want;
        for (int side = -1; side <= 1 && i < most; side++) { /* around the middle to the next one */
            float middle = (float)((i + 0.5) / most);
            double exact;

            middle = side ? nextafterf(middle, side < 0 ? 0 : 1) : middle;
            exact = (double)middle * most;
            raw = 0;
            zn_samples_write(&raw, &middle, 1, bytes);
            bad += (bytes == 1 ? *(uint8_t *)&raw : raw) != i + (exact - i >= 0.5);
        }
        raw = 0;
        zn_samples_write(&raw, v, 1, bytes);
        bad += (bytes == 1 ? *(uint8_t *)&raw : raw) != i;
    }
    CHECK(!bad, "%d bytes: %d are wrong", bytes, bad);
}

static void test_samples(void)
{
    static const float odd[9] = { -1, NAN, -INFINITY, 2, INFINITY, 1, 0, -0.0f, 1e-30f };
    static const uint8_t want[9] = { 0, 0, 0, 255, 255, 255, 0, 0, 0 }, grey[4] = { 51, 255, 102, 0 };
    uint8_t got[9];
    float v[8];

    samples(1);
    samples(2);
    zn_samples_write(got, odd, 9, 1);
    CHECK(!memcmp(got, want, 9), "beyond 0..1: %d %d %d %d %d", got[0], got[1], got[2], got[3], got[4]);
    zn_samples_read(v, 4, grey, 2, 2, 1);
    CHECK(v[0] == 0.2f && v[2] == 0.2f && v[3] == 1 && v[4] == 0.4f && v[6] == 0.4f && v[7] == 0, "grey with alpha");
    zn_samples_read(v, 3, grey, 1, 2, 1);
    CHECK(v[0] == 0.2f && v[2] == 0.2f && v[3] == 1 && v[5] == 1, "grey");
    CHECK(!strcmp(zn_samples_full("Y'A u16"), "R'G'B'A float") && !strcmp(zn_samples_full("RGB u8"), "RGB float"),
          "names");
    CHECK(!zn_samples_full("R'G'B' half") && !zn_samples_full("R'aG'aB'aA u8") && !zn_samples_full("u8"),
          "other names");
}

/* The same in a language that writes 12,5, where one is installed. */
static void test_locale(void)
{
    static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8", "tr_TR.UTF-8", "de_DE.utf8" };
    const char *found = NULL;
    char text[ZN_NUMBER_SIZE];
    double v = 0;
    bool ok;

    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = setlocale(LC_ALL, names[i]);
    ok = zn_number_parse(&v, "12.5", NULL) && v == 12.5 && !zn_number_parse(&v, "12,5", NULL) &&
        !strcmp(zn_number_print(text, 0.75), "0.75") && !strcmp(zn_number_print(text, 1e-7), "1e-07");
    setlocale(LC_ALL, "C");
    if (!found)
        SKIP("no locale with a decimal comma is installed");
    CHECK(ok, "%g, %s", v, text);
}

/* Sizes of the environment; what is none leaves the number alone. */
static void test_mebibytes(void)
{
    static const struct {
        const char *text;
        double mib; /* -1: none */
    } cases[] = { { "0", 0 },   { "512", 512 }, { "512M", 512 }, { "1.5g", 1536 }, { "", -1 },
                  { "-1", -1 }, { "4T", -1 },   { "4GB", -1 },   { "/tmp", -1 },   { "1e10", -1 },
                  { "G", -1 },  { " 5", -1 },   { "1e6G", -1 } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double mib = -1;

        CHECK(zn_mebibytes_parse(&mib, cases[i].text) == (cases[i].mib >= 0) && mib == cases[i].mib, "'%s': %g",
              cases[i].text, mib);
    }
}

int main(void)
{
    RUN(test_edges);
    RUN(test_mebibytes);
    RUN(test_half_way);
    RUN(test_random_doubles);
    RUN(test_random_texts);
    RUN(test_refused);
    RUN(test_long);
    RUN(test_printed);
    RUN(test_samples);
    RUN(test_locale);
    return test_end();
}
