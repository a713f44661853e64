/* SPDX-License-Identifier: MIT */
/* face_eyes.c - where the eyes of a large face are open, and how their lids and eyeballs move.
 *
 *   picture ── around each eye ── circle of the iris ── curves of the lids, rings of the iris ──┐
 *   field of the motion ── ways of lids and eyeballs ───────────────────────────────────────────┴── face_eyeball.c
 *
 * The iris is where the mean lightness along the left and right arcs of a circle rises most (Daugman, "How iris recognition works", 2004),
 * in both eyes with one radius.  Lengths of an eye are in radii of its iris: x and y from the centre. */
#include "face.h"

#include "../core/ints.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 128, /* side of what is seen around an eye */
    ARC = 9, /* places along an arc */
    RADII = 8,
    COLUMNS = 37,
    ROWS = 81,
    ANGLES = 64 /* around an iris */
};

static const double turn = 6.28318530717958648;
static const double seen_part = 0.28;            /* parts of the frame */
static const double usual[2] = { 0.31, 0.3 };    /* centre of the eye at the left */
static const float around = 0.055f;              /* ... +- this */
static const float least = 0.029f, more = 1.05f; /* radii of irises: the least, and the next one */
static const float radius = 0.0345f,
                   odd = 1.5f;    /* the usual one; less score of another one, times the square of the difference */
static const float sinks = 0.08f; /* more score of a radius further down */
static const float ring = 2;      /* pixels inside and outside of a circle */
static const float most = 0.35f;  /* difference of lightness that counts */
static const float far = 0.35f;   /* less score at the edge of what is searched */
static const float enough = 0.112f, sure = 0.22f; /* of an iris: the edge, and the score */

static const float column = 0.1f, row = 0.05f; /* of what is known of lids, in radii */
static const double reach = 4;                 /* what is further away does not move with an eye */
static const float same = 0.15f;               /* difference between two eyes */
/* Openings that are narrow, in radii; the usual middle of them below the centre of the iris; how much of the way to there it goes. */
static const float narrow_from = 1.5f, narrow_ramp = 0.4f, usual_middle = 0.1f, lowers = 0.45f;
static const float ring_inset = 0.1f,
                   ring_rank = 0.4f; /* rings: how far from lids they are seen; more than a median is light */
static const float lash_usual = 0.3f, lash_most = 0.5f,
                   lash_odd = 0.5f; /* lashes above the edge; less score of others */
static const float corners = 2.45f, ending[2] = { 2.2f, 3.4f }, gap = 0.1f; /* how a motion ends beside an eye */
/* How far from lids skin moves with them, and how much more than they do. */
static const float fades[2] = { 1.1f, 1.5f };
static const float narrows =
    1.3f; /* the part that closes beside the middle of an opening, relative to that in the middle, at most */
static const float reaches = 1.5f; /* how far from a lid it is looked for where a field takes it */
/* Edits of eyes-open alone.  An upper lid goes `stronger` times as far as a field takes it, and half of a usual way. */
static const float stronger = 0.8f;
static const float shuts_usual = 0.55f; /* the usual way down, of the height of the eye */
static const float opens_usual = 0.6f;  /* the usual way up, in radii */
static const float lower_part = 0.4f;   /* how far the lower lid rises meanwhile, of the way of the upper one */
static const float shuts_most = 0.47f;  /* the longest way down, of the height */
static const float hollow = 0.3f;       /* a lid that goes down becomes at most so much hollow, in radii */
static const float narrowest = 0.55f;   /* radii that stay open, ... */
static const float at_least = 0.2f;     /* ... but a narrow eye closes by this part of its height */
static const float opens_most = 0.9f;   /* the longest way up, of the height, ... */
static const float highest = -0.95f;    /* ... and no lid rises above this place, in radii below the centre */
static const double smallest = 0.8;     /* least scale of an eyeball: it becomes larger by a quarter at most */

typedef struct scene { /* around both eyes */
    float rgb[2][N * N * 3], light[2][N * N], red[2][N * N], room[N * N];
    float lid[ROWS * COLUMNS];
} scene;

/* ---- what is seen ------------------------------------------------------------------------------------------------ */

/* The red of irises is darker than that of skin, whatever colour they have.  1 is the mean. */
static void look(scene *s, int e, const zn_square *square, const zn_patch *patch, const zn_workers *workers)
{
    const double a = square->size * ((e ? 1 - usual[0] : usual[0]) - 0.5), b = square->size * (usual[1] - 0.5);
    const zn_square q = { square->x + square->cos * a - square->sin * b, square->y + square->sin * a + square->cos * b,
                          square->size * seen_part, square->cos, square->sin };
    double sum = 0;

    zn_square_shrink(s->rgb[e], N, &q, patch, workers);
    for (int i = 0; i < N * N; i++) {
        float p[3];

        for (int c = 0; c < 3; c++)
            p[c] = fminf(fmaxf(s->rgb[e][i * 3 + c], 0), 1);
        s->light[e][i] = 0.6f * p[0] + 0.3f * p[1] + 0.1f * p[2];
        s->red[e][i] = zn_redness(p);
        sum += (double)s->light[e][i];
    }
    for (int i = 0; i < N * N; i++)
        s->light[e][i] *= (float)(N * N / fmax(sum, 1));
    zn_mean_twice(s->light[e], s->room, s->light[e], N, 1, 1, NULL);
    zn_mean_twice(s->red[e], s->room, s->red[e], N, 1, 1, NULL);
}

/* Of a number; compilers call fminf(). */
static inline float within(float v, float low, float high)
{
    return v > high ? high : v > low ? v : low;
}

/* Linear; x and y are pixels, and beyond the edges it goes on.  n: how many values a pixel has. */
static inline float between(const float *values, int n, float x, float y)
{
    const float cx = within(x - 0.5f, 0, N - 1.001f), cy = within(y - 0.5f, 0, N - 1.001f);
    const int i = (int)cx, j = (int)cy;
    const float u = cx - (float)i, v = cy - (float)j, *p = values + (j * N + i) * n;

    return (1 - v) * ((1 - u) * p[0] + u * p[n]) + v * ((1 - u) * p[N * n] + u * p[(N + 1) * n]);
}

static float at(const float *values, float x, float y)
{
    return between(values, 1, x, y);
}

static float channel_at(const float *values, float x, float y)
{
    return between(values, 3, x, y);
}

/* ---- irises ------------------------------------------------------------------------------------------------------ */

typedef struct circle {
    float x, y, r, score;
} circle;

/* How much lighter it is outside of the arc than inside; of the arcs at both sides, the lower one counts more.  Lids cover irises above
 * more than below. */
static float edge_of(const float *light, float x, float y, float r)
{
    static const float arc[ARC][2] = { { 0.939f, -0.343f }, { 0.979f, -0.205f }, { 0.998f, -0.062f },
                                       { 0.997f, 0.081f },  { 0.975f, 0.223f },  { 0.933f, 0.360f },
                                       { 0.872f, 0.490f },  { 0.793f, 0.609f },  { 0.697f, 0.717f } };
    float sum[2] = { 0, 0 };

    for (int k = 0; k < ARC; k++) {
        const float c = arc[k][0], s = arc[k][1];

        for (int i = 0; i < 2; i++) {
            const float dx = i ? c : -c;
            const float rises =
                at(light, x + (r + ring) * dx, y + (r + ring) * s) - at(light, x + (r - ring) * dx, y + (r - ring) * s);

            sum[i] += within(rises, -most, most) / ARC;
        }
    }
    return (sum[0] + sum[1]) / 2 - 0.35f * fabsf(sum[0] - sum[1]);
}

/* The same, less what the place is unusual; and an iris is dark below its centre, too.  Not more than `best`: anything below it. */
static float score_of(const float *light, float x, float y, float r, float best)
{
    const float pixel = (float)seen_part / N, dx = (x - N / 2) * pixel / around, dy = (y - N / 2) * pixel / around;
    const float inside =
        (at(light, x - 0.5f * r, y) + at(light, x + 0.5f * r, y) + at(light, x, y + 0.5f * r) + at(light, x, y)) / 4;

    const float unusual = r * pixel / radius - 1;
    const float place = 0.25f * fmaxf(1 - inside, -1) - far * (dx * dx + dy * dy) / 4 - odd * unusual * unusual;

    return place + most <= best ? best - 1 : place + edge_of(light, x, y, r);
}

/* The best circle with a radius, and with one near it. */
static circle find_circle(const float *light, float r)
{
    const int end = (int)(around / (float)seen_part * N);
    circle best = { 0, 0, r, -9 };

    for (int j = -end; j <= end; j += 2)
        for (int i = -end; i <= end; i += 2) {
            const float x = (float)(N / 2 + i), y = (float)(N / 2 + j), score = score_of(light, x, y, r, best.score);

            if (score > best.score)
                best = (circle){ x, y, r, score };
        }
    return best;
}

/* Lids hide more of irises above than below: of circles with the same score it is the lowest. */
static circle refine(const float *light, circle c)
{
    circle best = c;

    best.score = -9;
    for (int k = -2; k <= 2; k++)
        for (int j = -10; j <= 10; j++)
            for (int i = -4; i <= 4; i++) {
                const float x = c.x + 0.5f * (float)i, y = c.y + 0.5f * (float)j, r = c.r * (1 + 0.035f * (float)k);
                const float score = score_of(light, x, y, r, best.score) + sinks * (y - c.y) / c.r;

                if (score > best.score)
                    best = (circle){ x, y, r, score };
            }
    return best;
}

static bool find_irises(circle found[2], const scene *s)
{
    float best = -9, r = least / (float)seen_part * N;
    bool all = true;

    for (int k = 0; k < RADII; k++, r *= more) {
        const circle left = find_circle(s->light[0], r), right = find_circle(s->light[1], r);

        if (left.score + right.score > best) {
            best = left.score + right.score;
            found[0] = left;
            found[1] = right;
        }
    }
    for (int e = 0; e < 2; e++) {
        circle *c = found + e;

        *c = refine(s->light[e], *c);
        all = all && edge_of(s->light[e], c->x, c->y, c->r) > enough &&
            score_of(s->light[e], c->x, c->y, c->r, sure) > sure;
    }
    return all;
}

/* ---- lids -------------------------------------------------------------------------------------------------------- */

static float bounded(float v)
{
    return within(v, -most, most);
}

/* s->lid: how much each place is one of the edge of a lid, [column][row].  The upper one has dark lashes, lighter skin above, and white
 * below but for the iris; below the lower one is skin, lighter than the iris and redder than white. */
static void rate_lid(scene *s, int e, const circle *c, bool upper)
{
    const float *light = s->light[e], *red = s->red[e], near = 0.15f * c->r, lash = 0.3f * c->r;

    for (int i = 0; i < COLUMNS; i++)
        for (int j = 0; j < ROWS; j++) {
            const float x = column * (float)(i - COLUMNS / 2), px = c->x + c->r * x;
            const float y = c->y + c->r * row * (float)(j - ROWS / 2);
            const float iris = 1 - zn_rise((fabsf(x) - 0.7f) / 0.3f);
            const float below = bounded(at(light, px, y + near) - at(light, px, y - near));
            float *to = s->lid + i * ROWS + j;

            if (upper)
                *to = (1 - 0.8f * iris) * below +
                    bounded(at(light, px, y - lash - near) - at(light, px, y - lash + near));
            else
                *to = (0.3f + 0.7f * iris) * below + 2 * bounded(at(red, px, y + near) - at(red, px, y - near));
        }
}

/* Where an iris is, no skin is seen above its centre: a curve is not above that. */
static void rate_skin(scene *s, int e, const circle *c)
{
    const float dark = at(s->light[e], c->x, c->y + 0.5f * c->r), skin = dark + 0.5f * fmaxf(1 - dark, 0.2f);

    for (int i = 0; i < COLUMNS; i++) {
        const float x = column * (float)(i - COLUMNS / 2);
        float sum = 0;

        for (int j = ROWS / 2; j >= 0 && fabsf(x) < 0.7f; j--) {
            const float y = row * (float)(j - ROWS / 2);

            sum += bounded(fmaxf(at(s->light[e], c->x + c->r * x, c->y + c->r * y) - skin, 0));
            s->lid[i * ROWS + j] -= 0.15f * sum;
        }
    }
}

static float rate_curve(const scene *s, const float h[3])
{
    float sum = 0;

    for (int i = 0; i < COLUMNS; i++) {
        const float y = zn_lid_at(h, column * (float)(i - COLUMNS / 2)) / row + ROWS / 2;

        sum += s->lid[i * ROWS + (int)within(y + 0.5f, 0, ROWS - 1)];
    }
    return sum / COLUMNS;
}

/* The best of 3-parameter curves around h, with these steps. */
static void search_curve(float h[3], const scene *s, const float normal[3], float step, int n)
{
    const float middle[3] = { h[0], h[1], h[2] };
    float best = -9;

    for (int k = 0; k < (2 * n + 1) * (2 * n + 1) * (2 * n + 1); k++) {
        const int w = 2 * n + 1;
        const float t[3] = { middle[0] + step * (float)(k % w - n), middle[1] + step * (float)(k / w % w - n),
                             middle[2] + step * (float)(k / w / w - n) };
        const float bend = (t[0] + t[2]) / 2 - t[1] - ((normal[0] + normal[2]) / 2 - normal[1]);
        const float off = t[1] - normal[1], tilt = (t[0] - t[2]) / 2 - (normal[0] - normal[2]) / 2;
        const float score = rate_curve(s, t) - 0.12f * (bend * bend * 2 + off * off + 2 * tilt * tilt);

        if (score > best) {
            best = score;
            memcpy(h, t, sizeof t);
        }
    }
}

static void find_lids(zn_eye *eye, scene *s, int e, const circle *c)
{
    static const float normal[2][3] = { { -0.15f, -0.65f, -0.15f }, { 0.4f, 0.9f, 0.4f } };

    for (int k = 0; k < 2; k++) {
        float *h = k ? eye->lower : eye->upper;

        rate_lid(s, e, c, !k);
        if (!k)
            rate_skin(s, e, c);
        memcpy(h, normal[k], sizeof normal[k]);
        search_curve(h, s, normal[k], 0.15f, 5);
        search_curve(h, s, normal[k], 0.05f, 2);
    }
}

/* Both eyes are open as far: a lid that is much higher than the other one is a fold above it. */
static void agree(zn_eyes *eyes)
{
    zn_eye *a = eyes->eye, *b = a + 1;
    const float difference = a->upper[1] - b->upper[1];
    zn_eye *wider = difference < 0 ? a : b;
    const float lower = fmaxf(fabsf(difference) - same, 0);

    for (int k = 0; k < 3; k++)
        wider->upper[k] += lower;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* Above the lower edge of the lashes it becomes lighter where skin begins. */
static float find_lash(const zn_eye *eye, const float *light, const circle *c)
{
    const float near = 0.1f, step = 0.05f;
    float best = -9, found = 0;

    for (int k = 0; (float)k * step < lash_most + step / 2; k++) {
        const float above = step * (float)k, odd_by = above - lash_usual;
        float score = -lash_odd * odd_by * odd_by;

        for (int i = -4; i <= 4; i++) {
            const float x = 0.2f * (float)i, px = c->x + c->r * x, y = zn_lid_at(eye->upper, x) - above;

            score += bounded(at(light, px, c->y + c->r * (y - near)) - at(light, px, c->y + c->r * (y + near))) / 9;
        }
        if (score > best) {
            best = score;
            found = above;
        }
    }
    return found;
}

/* The colours of rings are about the medians of what is seen of them between the lids, or of their lower halves. */
static void find_rings(zn_eye *eye, const scene *s, int e, const circle *c)
{
    for (int k = 0; k < ZN_RINGS; k++)
        for (int channel = 0; channel < 3; channel++) {
            const float away = ZN_RING_STEP * (float)k;
            float seen[ANGLES], lower[ANGLES]; /* half of which are used */
            int n = 0, n_lower = 0;

            for (int a = 0; a < ANGLES; a++) {
                const double angle = turn * (a + 0.5) / ANGLES;
                const float x = away * (float)cos(angle), y = away * (float)sin(angle);
                const float v = channel_at(s->rgb[e] + channel, c->x + c->r * x, c->y + c->r * y);

                if (y >= 0)
                    lower[n_lower++] = v;
                if (y > zn_lid_at(eye->upper, x) + ring_inset && y < zn_lid_at(eye->lower, x) - ring_inset)
                    seen[n++] = v;
            }
            if (n < ANGLES / 8) {
                n = n_lower;
                memcpy(seen, lower, sizeof lower);
            }
            qsort(seen, (size_t)n, sizeof *seen, by_value);
            eye->ring[k][channel] = seen[(int)(ring_rank * (float)n)];
        }
}

/* The arcs of an iris that both lids cover fit circles above it, too: its centre is nearer to the middle of the opening. */
static void lower_centre(zn_eye *eye, circle *c)
{
    const float height = eye->lower[1] - eye->upper[1], narrow = zn_rise((narrow_from - height) / narrow_ramp);
    const float middle = (eye->lower[1] + eye->upper[1]) / 2, down = lowers * narrow * fmaxf(middle - usual_middle, 0);

    c->y += down * c->r;
    eye->y += eye->radius * (double)down;
    for (int k = 0; k < 3; k++) {
        eye->upper[k] -= down;
        eye->lower[k] -= down;
    }
}

bool zn_eyes_find(zn_eyes *eyes, const zn_square *square, const zn_patch *patch, const zn_workers *workers)
{
    scene *s = malloc(sizeof *s);
    circle found[2];

    memset(eyes, 0, sizeof *eyes);
    if (!s)
        return false;
    for (int e = 0; e < 2; e++)
        look(s, e, square, patch, workers);
    eyes->found = find_irises(found, s);
    for (int e = 0; e < 2; e++) {
        zn_eye *eye = eyes->eye + e;

        eye->x = (e ? 1 - usual[0] : usual[0]) + ((double)found[e].x / N - 0.5) * seen_part;
        eye->y = usual[1] + ((double)found[e].y / N - 0.5) * seen_part;
        eye->radius = (double)found[e].r / N * seen_part;
        eye->scale = 1;
        find_lids(eye, s, e, found + e);
    }
    agree(eyes);
    for (int e = 0; e < 2; e++) {
        lower_centre(eyes->eye + e, found + e);
        eyes->eye[e].lash = find_lash(eyes->eye + e, s->light[e], found + e);
        find_rings(eyes->eye + e, s, e, found + e);
    }
    free(s);
    return true;
}

/* ---- lids that move ---------------------------------------------------------------------------------------------- */

/* How much of a lid's motion is at x.  Lids are flatter than the curves that are found around irises, and corners move, too. */
static float share_at(float x)
{
    const float share = 1 - x * x / (corners * corners);

    return (share + sqrtf(share * share + 0.01f)) / 2 * (1 - zn_rise((fabsf(x) - ending[0]) / (ending[1] - ending[0])));
}

typedef struct
    motion { /* of the lids at x: where their edges go to, and by how much the upper one goes down and the lower one up */
    float top, bottom, down, up;
} motion;

/* Lids close in proportion to the height of the opening at x, so that its corners stay open.  Beyond the corners the lids are a small
 * gap around the middle. */
static motion motion_at(const zn_eye *eye, float x)
{
    const float middle = (zn_lid_at(eye->lower, x) + zn_lid_at(eye->upper, x)) / 2,
                height = 2 * (zn_lid_at(eye->lower, x) - middle);
    const float half = (height + sqrtf(height * height + 4 * gap * gap)) / 4,
                highest_half = (eye->lower[1] - eye->upper[1]) / 2;
    const float share = share_at(x), down = eye->shut[0] * fminf(share, narrows * half / fmaxf(highest_half, half));
    const float top = middle - half + down;
    const float bottom = fmaxf(middle + half - eye->shut[1] * share, top + fminf(gap, 2 * half));

    return (motion){ top, bottom, down, middle + half - bottom };
}

/* Where y of an eye comes from, relative to it.  Lashes move with the edges of their lids. */
static float way_of_lids(const zn_eye *eye, float x, float y)
{
    const motion m = motion_at(eye, x);

    if (y <= m.top)
        return -m.down * zn_rise(1 - (m.top - y) / (fades[0] + fades[1] * fabsf(m.down)));
    if (y >= m.bottom)
        return m.up * zn_rise(1 - (y - m.bottom) / (fades[0] + fades[1] * fabsf(m.up)));
    return -m.down + (m.down + m.up) * zn_rise((y - m.top) / (m.bottom - m.top));
}

float zn_eye_stretch(float *along, const zn_eye *eye, float x, float y)
{
    const motion m = motion_at(eye, x);
    const float step = 0.05f, slope = (way_of_lids(eye, x, y + step) - way_of_lids(eye, x, y - step)) / (2 * step);

    *along = y - m.down;
    return y < m.top - step ? 1 / fmaxf(1 + slope, 0.1f) : 1;
}

/* Where a field takes an edge of a lid to, at x, relative to it. */
static float way_of_edge(const zn_eye *eye, const zn_face_field *field, int side, float x, float edge)
{
    const float step = 0.05f;
    float before = 0;

    for (float y = edge - reaches; y < edge + reaches; y += step) {
        zn_face_field f;
        float past;

        zn_sample_field(f, field, side, eye->x + eye->radius * (double)x, eye->y + eye->radius * (double)y);
        past = y + f[4] / (float)eye->radius - edge;
        if (past >= 0 && y > edge - reaches)
            return y - step * past / fmaxf(past - before, 1e-3f) - edge;
        before = past;
    }
    return 0;
}

static float bounded_by(float v, float low, float high)
{
    return fminf(fmaxf(v, low), high); /* of no number: low */
}

/* Both eyes close or open as much, half of it as a field makes them on average: that is the person's way, but what is drawn may move eyes
 * as a whole instead.  An upper lid does not become hollow, and does not rise far above an iris. */
static void follow_lids(zn_eyes *eyes, const zn_face_field *field, int side)
{
    float shuts = 0, furthest[2], both;

    for (int e = 0; e < 2; e++)
        for (int k = -2; k <= 2; k++) {
            const zn_eye *eye = eyes->eye + e;
            const float x = 0.4f * (float)k;

            shuts += (way_of_edge(eye, field, side, x, zn_lid_at(eye->upper, x)) -
                      way_of_edge(eye, field, side, x, zn_lid_at(eye->lower, x))) /
                10;
        }
    for (int e = 0; e < 2; e++) {
        zn_eye *eye = eyes->eye + e;
        const float height = fmaxf(eye->lower[1] - eye->upper[1], 0), *h = eye->upper;
        const float wanted = -eyes->opens * (eyes->opens < 0 ? shuts_usual * height : opens_usual);
        const float bend = ((h[0] + h[2]) / 2 - h[1]) / (ZN_LID_X * ZN_LID_X) * corners * corners;
        const float low = eyes->opens < 0 ? 0 : -fminf(fmaxf(h[1] - highest, 0.1f), opens_most * height);
        float high;

        furthest[e] = fminf(shuts_most * height, fmaxf(height - narrowest, at_least * height) / (1 + lower_part));
        high = eyes->opens > 0 ? 0 : fminf(furthest[e], fmaxf(bend, 0) + hollow);
        eye->shut[0] = bounded_by(stronger * shuts + wanted / 2, low, high);
        eye->way[0] = eye->way[1] = 0;
        eye->scale = 1;
    }
    both = (eyes->eye[0].shut[0] + eyes->eye[1].shut[0]) / 2;
    for (int e = 0; e < 2; e++) {
        zn_eye *eye = eyes->eye + e;

        eye->shut[0] = eyes->opens > 0 ? both : fminf(both, furthest[e]);
        eye->shut[1] = lower_part * fmaxf(eye->shut[0], 0); /* what is below an eye cannot be invented as well */
    }
}

/* Eyeballs move with their surroundings.  They become as much larger as both eyes do on average, but not smaller. */
void zn_eyes_follow(zn_eyes *eyes, const zn_face_field *field, int side)
{
    double wider = 0;

    if (eyes->opens != 0 && eyes->found) {
        follow_lids(eyes, field, side);
        return;
    }
    for (int e = 0; e < 2; e++) {
        zn_eye *eye = eyes->eye + e;

        eye->way[0] = eye->way[1] = 0;
        for (int k = 0; k < 4; k++) {
            const double x = k % 2 ? 0.5 : -0.5, y = k / 2 ? 0.45 : -0.45;
            zn_face_field f;

            zn_sample_field(f, field, side, eye->x + x * eye->radius, eye->y + (y + 0.05) * eye->radius);
            eye->way[0] += (double)f[3] / 4;
            eye->way[1] += (double)f[4] / 4;
            wider += ((double)f[3] / x + (double)f[4] / y) / eye->radius / 16; /* mean of both eyes and directions */
        }
    }
    for (int e = 0; e < 2; e++)
        eyes->eye[e].scale = fmin(fmax(1 + wider, smallest), 1);
}

void zn_eyes_move(float *f, const zn_eyes *eyes, double u, double v)
{
    const zn_eye *eye = eyes->eye + (u > 0.5);
    const double x = (u - eye->x) / eye->radius, y = (v - eye->y) / eye->radius;

    if (eyes->opens == 0 || !eyes->found)
        return;
    f[3] = f[4] = 0;
    if (fabs(x) < reach && fabs(y) < reach)
        f[4] = way_of_lids(eye, (float)x, (float)y) * (float)eye->radius;
}
