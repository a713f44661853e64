/* SPDX-License-Identifier: MIT */
/* convert.c - `zenith convert`: weight files to one safetensors file. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

int cmd_convert(const options *o)
{
    static const char *const types[] = { "fp16", "bf16", "fp32", "fp8", "int8", "int4" };
    const char *type = o->type ? o->type : types[0];
    zn_error what, err;
    bool known = false;

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        known = known || !strcmp(type, types[i]);
    if (o->n_words < 2)
        return usage("convert takes weight files and a new one: zenith convert FILE... OUT.safetensors");
    if (!known)
        return usage("--type must be fp16, bf16, fp32, fp8, int8 or int4, not '%s'", type);
    if (zn_weights_convert(o->word[o->n_words - 1], o->word, o->n_words - 1, type, &what, &err))
        return fail("%s", err.text);
    puts(what.text);
    return EXIT_DONE;
}
