/* SPDX-License-Identifier: MIT */
/* digest.h - SHA-256 and MD5 of files. */
#ifndef ZN_DIGEST_H
#define ZN_DIGEST_H

#include "../zenith.h"

enum { DIGEST_HEX = 65 };

/* The digest in hexadecimal digits: 64 of SHA-256, or 32 of MD5.  False: the file cannot be read. */
bool digest_file(char hex[DIGEST_HEX], const char *path, bool sha, zn_error *err);

#endif
