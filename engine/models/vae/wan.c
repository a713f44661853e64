/* SPDX-License-Identifier: MIT */
/* wan.c - the autoencoders of Wan 2.1 (16 latent channels, 1/8 of the size) and Wan 2.2 (48, 1/16), for one picture.
 *
 *   wan-vae-encode   picture -1..1 ── latent: the mean of the posterior, normalised per channel
 *   wan-vae-decode   normalised latent ── picture, clamped to -1..1
 *
 * They are networks for video whose convolutions are causal in time: a single picture, the first frame of a video, is
 * seen by the last tap in time alone, and only these weights are kept.  The means and deviations are known for 16 and 48
 * latent channels; latents of other widths are not normalised.  They are folded into the 1x1 convolution at the latent.
 *
 * Wan 2.2 sees the picture unshuffled by 2, with the column as the slower index, and adds to the result of a level its
 * input: in the encoder the means of 2x2 pixels and ft frames, in the decoder pixels repeated ft * 2 * 2 times, each
 * spread over as many channels as the level has.  ft is 2 where the level changes the frame rate.  Of those ft frames, the
 * first frame of a video is the last one, and the others are 0 (encoder) or not used (decoder).
 *
 * Names are those of the published .pth files or of diffusers.
 * Reference: Wan-Video/Wan2.1 wan/modules/vae.py, Wan-Video/Wan2.2 wan/modules/vae2_2.py; diffusers' AutoencoderKLWan. */
#include "vae.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without a file: Wan 2.1's. */
enum { USUAL_LEVELS = 4, USUAL_BLOCKS = 2, USUAL_Z = 16, USUAL_BASE = 96 };
static const int usual_mult[USUAL_LEVELS] = { 1, 2, 4, 4 };

static const float mean16[] = { -0.7571f, -0.7089f, -0.9113f, 0.1075f,  -0.1745f, 0.9653f,  -0.1517f, 1.5508f,
                                0.4134f,  -0.0715f, 0.5517f,  -0.3632f, -0.1922f, -0.9497f, 0.2503f,  -0.2921f };
static const float deviation16[] = { 2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f, 2.6052f, 2.0743f,
                                     3.2687f, 2.1526f, 2.8652f, 1.5579f, 1.6382f, 1.1253f, 2.8251f, 1.9160f };
static const float mean48[] = { -0.2289f, -0.0052f, -0.1323f, -0.2339f, -0.2799f, 0.0174f,  0.1838f,  0.1557f,
                                -0.1382f, 0.0542f,  0.2813f,  0.0891f,  0.1570f,  -0.0098f, 0.0375f,  -0.1825f,
                                -0.2246f, -0.1207f, -0.0698f, 0.5109f,  0.2665f,  -0.2108f, -0.2158f, 0.2502f,
                                -0.2055f, -0.0322f, 0.1109f,  0.1567f,  -0.0729f, 0.0899f,  -0.2799f, -0.1230f,
                                -0.0313f, -0.1649f, 0.0117f,  0.0723f,  -0.2839f, -0.2083f, -0.0520f, 0.3748f,
                                0.0152f,  0.1957f,  0.1433f,  -0.2944f, 0.3573f,  -0.0548f, -0.1681f, -0.0667f };
static const float deviation48[] = { 0.4765f, 1.0364f, 0.4514f, 1.1677f, 0.5313f, 0.4990f, 0.4818f, 0.5013f,
                                     0.8158f, 1.0344f, 0.5894f, 1.0901f, 0.6885f, 0.6165f, 0.8454f, 0.4978f,
                                     0.5759f, 0.3523f, 0.7135f, 0.6804f, 0.5833f, 1.4146f, 0.8986f, 0.5659f,
                                     0.7069f, 0.5338f, 0.4889f, 0.4917f, 0.4069f, 0.4999f, 0.6866f, 0.4093f,
                                     0.5709f, 0.6065f, 0.6415f, 0.4944f, 0.5726f, 1.2042f, 0.5458f, 1.6887f,
                                     0.3971f, 1.0600f, 0.3943f, 0.5537f, 0.5444f, 0.4089f, 0.7468f, 0.7744f };

typedef struct side {      /* names of one half, after "encoder." or "decoder." */
    const char *levels;    /* blocks are LEVELS.k, counted through, */
    const char *inner;     /* or LEVELS.i.INNER.j, */
    const char *resampler; /* and what changes the size has the next number, or is LEVELS.i.RESAMPLER */
} side;

typedef struct naming {
    const char *first, *last_norm, *last, *quant[2], *middle[3];
    side half[2];  /* encoder, decoder */
    bool shortcut; /* Wan 2.2 */
    zn_vae_names in;
} naming;

#define ORIGINAL                                                                                                       \
    "conv1", "head.0", "head.2", { "conv1", "conv2" },                                                                 \
    {                                                                                                                  \
        "middle.0", "middle.1", "middle.2"                                                                             \
    }
#define DIFFUSERS                                                                                                      \
    "conv_in", "norm_out", "conv_out", { "quant_conv", "post_quant_conv" },                                            \
    {                                                                                                                  \
        "mid_block.resnets.0", "mid_block.attentions.0", "mid_block.resnets.1"                                         \
    }
#define ATTENTION "norm", "to_qkv", NULL, NULL, "proj", ZN_RMS_NORM, 0
#define ORIGINAL_PARTS                                                                                                 \
    {                                                                                                                  \
        "residual.0", "residual.2", "residual.3", "residual.6", "shortcut", ATTENTION                                  \
    }
#define DIFFUSERS_PARTS                                                                                                \
    {                                                                                                                  \
        "norm1", "conv1", "norm2", "conv2", "conv_shortcut", ATTENTION                                                 \
    }

static const naming namings[] = {
    { ORIGINAL, { { "downsamples", NULL, NULL }, { "upsamples", NULL, NULL } }, false, ORIGINAL_PARTS },
    { ORIGINAL, { { "downsamples", "downsamples", NULL }, { "upsamples", "upsamples", NULL } }, true, ORIGINAL_PARTS },
    { DIFFUSERS,
      { { "down_blocks", NULL, NULL }, { "up_blocks", "resnets", "upsamplers.0" } },
      false,
      DIFFUSERS_PARTS },
    { DIFFUSERS,
      { { "down_blocks", "resnets", "downsampler" }, { "up_blocks", "resnets", "upsampler" } },
      true,
      DIFFUSERS_PARTS },
};

static const char *side_name(bool decoder)
{
    return decoder ? "decoder" : "encoder";
}

/* Of a block of a level; count: how many blocks and resamplers come before it. */
static void block_name(char *name, const naming *names, bool decoder, int level, int block, int count)
{
    const side *half = &names->half[decoder];

    if (half->inner)
        snprintf(name, ZN_VAE_NAME, "%s.%s.%d.%s.%d", side_name(decoder), half->levels, level, half->inner, block);
    else
        snprintf(name, ZN_VAE_NAME, "%s.%s.%d", side_name(decoder), half->levels, count);
}

static void resampler_name(char *name, const naming *names, bool decoder, int level, int block, int count)
{
    const side *half = &names->half[decoder];

    if (half->resampler)
        snprintf(name, ZN_VAE_NAME, "%s.%s.%d.%s", side_name(decoder), half->levels, level, half->resampler);
    else
        block_name(name, names, decoder, level, block, count);
}

/* ---- recognise ------------------------------------------------------------------------------------------ */

static const zn_entry *get(const zn_weights *w, const char *module, const char *leaf)
{
    char name[2 * ZN_VAE_NAME];

    snprintf(name, sizeof name, "%s.%s.weight", module, leaf);
    return zn_weights_get(w, name);
}

/* How this file names that half; NULL: it does not hold it. */
static const naming *find_naming(const zn_weights *w, bool decoder)
{
    for (size_t i = 0; i < sizeof namings / sizeof *namings; i++) {
        const naming *names = &namings[i];
        char block[ZN_VAE_NAME], resampler[ZN_VAE_NAME], middle[ZN_VAE_NAME];

        block_name(block, names, decoder, 0, 0, 0);
        resampler_name(resampler, names, decoder, 0, 0, 0);
        snprintf(middle, sizeof middle, "%s.%s", side_name(decoder), names->middle[1]);
        if (get(w, side_name(decoder), names->first) && get(w, side_name(decoder), names->last) &&
            get(w, block, names->in.conv1) && get(w, middle, names->in.q) &&
            (!names->half[decoder].resampler || get(w, resampler, "resample.1")))
            return names;
    }
    return NULL;
}

static bool recognise(const zn_weights *w, bool decoder, char *what, size_t size)
{
    const naming *names = find_naming(w, decoder);
    const zn_entry *e = names ? get(w, side_name(decoder), decoder ? names->first : names->last) : NULL;

    if (!e || e->n_dims < 2)
        return false;
    snprintf(what, size, "Wan %s VAE %s, %d latent channels", names->shortcut ? "2.2" : "2.1", side_name(decoder),
             (int)(decoder ? e->shape[1] : e->shape[0] / 2));
    return true;
}

static bool recognise_encoder(const zn_weights *w, char *what, size_t size)
{
    return recognise(w, false, what, size);
}

static bool recognise_decoder(const zn_weights *w, char *what, size_t size)
{
    return recognise(w, true, what, size);
}

/* ---- bind ----------------------------------------------------------------------------------------------- */

/* Constant weights [cout][cin] of a 1x1 convolution. */
static void bind_constant(zn_binder *b, zn_conv *out, int cin, int cout, const float *weight)
{
    zn_conv spec = zn_conv_same(1, cin, cout);

    spec.has_bias = false;
    zn_bind_pack(b, out, spec, weight, NULL);
}

/* The shortcut around a level of the encoder, cin to cout channels.  Unit u = c * ft + t is channel c of frame t, averaged
 * over 2x2 pixels; output channel o is the mean of `each` units from o * each on. */
static void bind_means(zn_binder *b, zn_vae_level *level, int cin, int cout, int ft)
{
    const int each = cin * ft / cout;
    float *mix, *past;

    if (each < 1 || each * cout != cin * ft) {
        zn_bind_fail(b, "a level from %d to %d channels has no shortcut", cin, cout);
        return;
    }
    level->shortcut = cin == cout && ft == 1 ? ZN_VAE_MEAN : ZN_VAE_SPREAD;
    if (level->shortcut == ZN_VAE_MEAN)
        return;
    mix = calloc((size_t)cin * (size_t)cout, sizeof *mix);
    past = calloc((size_t)cin * (size_t)cout, sizeof *past);
    if (!mix || !past)
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for a shortcut");
    for (int u = 0; mix && past && u < cin * ft; u++)
        (u % ft == ft - 1 ? mix : past)[(size_t)(u / each) * (size_t)cin + (size_t)(u / ft)] += 1 / (float)each;
    bind_constant(b, &level->mix, cin, cout, mix);
    if (ft > 1)
        bind_constant(b, &level->mix_past, cin, cout, past);
    free(mix);
    free(past);
}

/* The same in the decoder: number ((o * ft + t) * 2 + row) * 2 + column of the output is channel number / repeats. */
static void bind_repeats(zn_binder *b, zn_vae_level *level, int cin, int cout, int ft)
{
    const int repeats = cout * 4 * ft / cin;
    float *mix;

    if (repeats < 1 || repeats * cin != cout * 4 * ft) {
        zn_bind_fail(b, "a level from %d to %d channels has no shortcut", cin, cout);
        return;
    }
    level->shortcut = repeats == 4 * ft ? ZN_VAE_REPEAT : ZN_VAE_DEAL;
    if (level->shortcut == ZN_VAE_REPEAT)
        return;
    mix = calloc(4 * (size_t)cin * (size_t)cout, sizeof *mix);
    for (int i = 0; mix && i < 4 * cout; i++) {
        const int number = (i / 4 * ft + ft - 1) * 4 + i % 4;

        mix[(size_t)i * (size_t)cin + (size_t)(number / repeats)] = 1;
    }
    if (mix)
        bind_constant(b, &level->mix, cin, 4 * cout, mix);
    else
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory for a shortcut");
    free(mix);
}

static void bind_shortcut(zn_binder *b, zn_vae *m, zn_vae_level *level, int cin, int cout, bool in_time)
{
    if (b->status)
        return;
    if (m->video && m->decoder && in_time && cin != cout)
        zn_bind_fail(b, "a level from %d to %d channels that doubles the frames is not known", cin, cout);
    else if (level->resamples)
        (m->decoder ? bind_repeats : bind_means)(b, level, cin, cout, in_time ? 2 : 1);
    else if (!m->decoder && cin == cout)
        level->shortcut = ZN_VAE_INPUT;
    else if (!m->decoder)
        zn_bind_fail(b, "a level from %d to %d channels has no shortcut", cin, cout);
}

/* The convolution in time of a level that changes the number of frames; it comes after the one that halves the size, and
 * before the one that doubles it.  The bias is added with the last tap. */
static void bind_time(zn_binder *b, const zn_vae *m, zn_vae_level *level, const char *resampler)
{
    const int width = level->resample.cin;
    const zn_conv spec = zn_conv_same(1, width, m->decoder ? 2 * width : width);
    char name[ZN_VAE_NAME + 16];

    snprintf(name, sizeof name, "%s.time_conv", resampler);
    for (int i = 0; i < 2; i++)
        zn_vae_bind_tap(b, &level->time[i], spec, i, name);
    zn_vae_bind_conv(b, &level->time[2], spec, "%s", name);
}

static int usual_width(const zn_binder *b, const zn_vae *m, int i)
{
    return (b->base ? b->base : USUAL_BASE) * usual_mult[m->decoder ? USUAL_LEVELS - 1 - i : i];
}

/* A level; *count: the blocks and resamplers so far, of all levels. */
static int bind_level(zn_binder *b, zn_vae *m, const naming *names, int number, int *count, int width)
{
    zn_vae_level *level = &m->level[number];
    const int cin = width;
    char name[ZN_VAE_NAME], conv[ZN_VAE_NAME + 32];

    for (;;) {
        int cout;

        block_name(name, names, m->decoder, number, level->n_res, *count);
        snprintf(conv, sizeof conv, "%s.%s", name, names->in.conv1);
        if (b->status || !(b->w ? zn_bind_has(b, "%s.weight", conv) : level->n_res < USUAL_BLOCKS + m->decoder))
            break;
        if (level->n_res == ZN_VAE_BLOCKS) {
            zn_bind_fail(b, "level %d has more than %d blocks", number, ZN_VAE_BLOCKS);
            return width;
        }
        cout = b->w ? zn_vae_width(b, conv) : usual_width(b, m, number);
        zn_vae_bind_res(b, &level->res[level->n_res++], &names->in, m->video, width, cout, "%s", name);
        ++*count;
        width = cout;
    }
    resampler_name(name, names, m->decoder, number, level->n_res, *count);
    level->resamples = b->w ? zn_bind_has(b, "%s.resample.1.weight", name) : number + 1 < USUAL_LEVELS;
    if (level->resamples && !b->status) {
        int cout = width;

        snprintf(conv, sizeof conv, "%s.resample.1", name);
        if (m->decoder)
            cout = b->w ? zn_vae_width(b, conv) : width / 2;
        zn_vae_bind_conv(b, &level->resample, m->decoder ? zn_vae_twice(width, cout) : zn_vae_half(width, cout), "%s",
                         conv);
        ++*count;
        width = cout;
    }
    level->in_time = level->resamples &&
        (b->w ? zn_bind_has(b, "%s.time_conv.weight", name) : number != (m->decoder ? USUAL_LEVELS - 2 : 0));
    if (m->video && level->in_time)
        bind_time(b, m, level, name);
    if (names->shortcut)
        bind_shortcut(b, m, level, cin, width, level->in_time);
    return width;
}

static void bind_levels(zn_binder *b, zn_vae *m, const naming *names, int *width)
{
    bool more = true;

    for (int count = 0; more && !b->status; m->n_levels++) {
        if (m->n_levels == ZN_VAE_LEVELS) {
            zn_bind_fail(b, "the %s has more than %d levels", side_name(m->decoder), ZN_VAE_LEVELS);
            return;
        }
        *width = bind_level(b, m, names, m->n_levels, &count, *width);
        more = m->level[m->n_levels].resamples;
        if (!b->status && !m->level[m->n_levels].n_res)
            zn_bind_fail(b, "level %d of the %s has no blocks", m->n_levels, side_name(m->decoder));
    }
}

static void bind_middle(zn_binder *b, zn_vae *m, const naming *names, int width)
{
    char name[ZN_VAE_NAME];

    m->width = width;
    m->has_attend = true;
    for (int i = 0; i < 2; i++)
        zn_vae_bind_res(b, &m->middle[i], &names->in, m->video, width, width, "%s.%s", side_name(m->decoder),
                        names->middle[2 * i]);
    snprintf(name, sizeof name, "%s.%s", side_name(m->decoder), names->middle[1]);
    if (!b->status)
        zn_vae_bind_attention(b, &m->attention, &names->in, width, name);
}

/* Channel c * 4 + row * 2 + column of an unshuffled picture is channel (c * 2 + column) * 2 + row of the file. */
static int patch_channel(int i)
{
    return i / 4 * 4 + i % 2 * 2 + i / 2 % 2;
}

/* A 3x3 convolution from or to an unshuffled picture, its channels permuted; tap -1: the last one, with the bias. */
static void bind_patched(zn_binder *b, zn_conv *out, zn_conv spec, bool outputs, int tap, const char *name)
{
    const size_t rows = (size_t)spec.cout, cols = (size_t)spec.cin, taps = 9;
    float *bias = NULL, *weight = b->status ? NULL : zn_vae_read_tap(b, tap < 0 ? &bias : NULL, spec, tap, name);
    float *packed = malloc(rows * cols * taps * sizeof *packed), *offsets = malloc(rows * sizeof *offsets);

    if (!b->status && (!packed || !offsets))
        b->status = zn_fail(b->err, ZN_E_MEMORY, "out of memory while reading '%s'", name);
    for (size_t o = 0; !b->status && o < rows; o++) {
        const size_t from = outputs ? (size_t)patch_channel((int)o) : o;

        offsets[o] = bias ? bias[from] : 0;
        for (size_t i = 0; i < cols; i++)
            memcpy(packed + (o * cols + i) * taps,
                   weight + (from * cols + (outputs ? i : (size_t)patch_channel((int)i))) * taps,
                   taps * sizeof *packed);
    }
    if (!b->status)
        zn_bind_pack(b, out, spec, packed, offsets);
    free(weight);
    free(bias);
    free(packed);
    free(offsets);
}

/* The first or last convolution, at the picture or at the latent. */
static void bind_end(zn_binder *b, const zn_vae *m, zn_conv *out, zn_conv past[2], zn_conv spec, bool at_picture,
                     const char *name)
{
    const bool patched = at_picture && m->patch > 1;

    if (patched)
        bind_patched(b, out, spec, m->decoder, -1, name);
    else
        zn_vae_bind_conv(b, out, spec, "%s", name);
    for (int i = 0; m->video && i < 2; i++)
        if (patched)
            bind_patched(b, &past[i], spec, m->decoder, i, name);
        else
            zn_vae_bind_tap(b, &past[i], spec, i, name);
}

/* The 1x1 convolution at the latent, with the normalisation of its channels:
 *     encoder  z = (W y + bias - mean) / deviation        decoder  W (deviation z + mean) + bias */
static void bind_quant(zn_binder *b, zn_vae *m, const char *name)
{
    const float *mean = m->z == 16 ? mean16 : m->z == 48 ? mean48 : NULL;
    const float *deviation = m->z == 16 ? deviation16 : m->z == 48 ? deviation48 : NULL;
    const zn_conv spec = zn_conv_same(1, m->z, m->z);
    float *bias = NULL, *weight;

    m->has_quant = true;
    if (!m->decoder) {
        zn_vae_bind_moments(b, &m->quant, m->video ? NULL : &m->spread, zn_conv_same(1, 2 * m->z, m->z), mean,
                            deviation, name);
        return;
    }
    weight = b->status ? NULL : zn_vae_read_conv(b, &bias, spec, name);
    for (int o = 0; mean && !b->status && o < m->z; o++)
        for (int i = 0; i < m->z; i++) {
            float *at = &weight[(size_t)o * (size_t)m->z + (size_t)i];

            bias[o] += *at * mean[i];
            *at *= deviation[i];
        }
    if (!b->status)
        zn_bind_pack(b, &m->quant, spec, weight, bias);
    free(weight);
    free(bias);
}

/* The channels of the picture as the network sees it: 3, or 12 unshuffled. */
static void find_patch(zn_binder *b, zn_vae *m, int channels)
{
    m->patch = channels == 12 ? 2 : 1;
    if (b->w && channels != 3 && channels != 12)
        zn_bind_fail(b, "the network sees pictures of %d channels where 3 or 12 are known", channels);
}

static void bind(zn_binder *b, zn_vae *m, bool decoder, bool video)
{
    const naming *names = b->w ? find_naming(b->w, decoder) : &namings[0];
    const char *half = side_name(decoder);
    char first[ZN_VAE_NAME], last[ZN_VAE_NAME];
    int width, seen;

    m->decoder = decoder;
    m->video = video;
    m->end = decoder ? ZN_CLAMP : ZN_NONE;
    if (!names || (b->w && !recognise(b->w, decoder, b->variant, sizeof b->variant))) {
        zn_bind_fail(b, "these are not the weights of a Wan VAE's %s", half);
        return;
    }
    snprintf(first, sizeof first, "%s.%s", half, names->first);
    snprintf(last, sizeof last, "%s.%s", half, names->last);
    m->z = !b->w ? USUAL_Z : decoder ? zn_bind_dim(b, 1, "%s.weight", first) : zn_bind_dim(b, 0, "%s.weight", last) / 2;
    find_patch(b, m, decoder ? zn_bind_dim(b, 0, "%s.weight", last) : zn_bind_dim(b, 1, "%s.weight", first));
    if (!b->status && (m->z < 1 || m->z > ZN_VAE_MAX_Z))
        zn_bind_fail(b, "%d latent channels are not from 1 to %d", m->z, ZN_VAE_MAX_Z);
    seen = 3 * m->patch * m->patch;
    width = b->w ? zn_vae_width(b, first) : usual_width(b, m, 0);
    bind_end(b, m, &m->first, m->past_first, zn_conv_same(3, decoder ? m->z : seen, width), !decoder, first);
    if (decoder)
        bind_middle(b, m, names, width);
    bind_levels(b, m, names, &width);
    if (!decoder)
        bind_middle(b, m, names, width);
    zn_vae_bind_norm(b, &m->last_norm, &names->in, width, "%s.%s", half, names->last_norm);
    bind_end(b, m, &m->last, m->past_last, zn_conv_same(3, width, decoder ? seen : 2 * m->z), decoder, last);
    bind_quant(b, m, names->quant[decoder]);
    zn_vae_set_geometry(b, m);
}

static void bind_encoder(zn_binder *b, void *net)
{
    bind(b, net, false, false);
}

static void bind_decoder(zn_binder *b, void *net)
{
    bind(b, net, true, false);
}

static void bind_video_encoder(zn_binder *b, void *net)
{
    bind(b, net, false, true);
}

static void bind_video_decoder(zn_binder *b, void *net)
{
    bind(b, net, true, true);
}

/* ---- descriptors ---------------------------------------------------------------------------------------- */

/* Frames of a chunk: the first one alone, then four of the video for one of the latent. */
static const zn_stream encoder_stream = { .frames_in = 4, .frames_out = 1, .state = zn_vae_state };
static const zn_stream decoder_stream = { .frames_in = 1, .frames_out = 4, .state = zn_vae_state };

const zn_arch zn_arch_wan_video_encode = {
    .info = { .id = "wan-video-encode",
              .summary = "video (-1..1) to normalised latents of Wan 2.1 or 2.2; wan-vae-encode is for one picture",
              .in = { "x" },
              .out = { "z" },
              .weights = "wan-vae",
              .narrow = 8,
              .video = "wan-video-encode" },
    .size = sizeof(zn_vae),
    .bind = bind_video_encoder,
    .forward = zn_vae_forward,
    .in_c = 3,
    .centred = true,
    .stream = &encoder_stream,
};

const zn_arch zn_arch_wan_video_decode = {
    .info = { .id = "wan-video-decode",
              .summary = "normalised latents of Wan 2.1 or 2.2 to video; wan-vae-decode is for one picture",
              .in = { "z" },
              .out = { "x" },
              .weights = "wan-vae",
              .narrow = 8,
              .video = "wan-video-decode" },
    .size = sizeof(zn_vae),
    .bind = bind_video_decoder,
    .forward = zn_vae_forward,
    .out_c = 3,
    .centred = true,
    .stream = &decoder_stream,
};

enum { SET_SAMPLE, SET_SEED };
static const zn_setting encoder_settings[] = { [SET_SAMPLE] = ZN_VAE_SAMPLE, [SET_SEED] = ZN_VAE_SEED, { 0 } };
static const zn_posterior posterior = { SET_SAMPLE, SET_SEED };

const zn_arch zn_arch_wan_vae_encode = {
    .info = { .id = "wan-vae-encode",
              .summary = "picture (-1..1) to the normalised latent of Wan 2.1 or 2.2",
              .in = { "x" },
              .out = { "z" },
              .weights = "wan-vae",
              .settings = encoder_settings,
              .narrow = 8,
              .video = "wan-video-encode" },
    .size = sizeof(zn_vae),
    .recognise = recognise_encoder,
    .bind = bind_encoder,
    .forward = zn_vae_forward,
    .in_c = 3,
    .centred = true,
    .posterior = &posterior,
};

const zn_arch zn_arch_wan_vae_decode = {
    .info = { .id = "wan-vae-decode",
              .summary = "normalised latent of Wan 2.1 or 2.2 to picture",
              .in = { "z" },
              .out = { "x" },
              .weights = "wan-vae",
              .narrow = 8,
              .video = "wan-video-decode" },
    .size = sizeof(zn_vae),
    .recognise = recognise_decoder,
    .bind = bind_decoder,
    .forward = zn_vae_forward,
    .out_c = 3,
    .centred = true,
};
