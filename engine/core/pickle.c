/* SPDX-License-Identifier: MIT */
/* pickle.c - a stack machine for pickles, protocols 2 to 5, that executes nothing; see pickle.h.
 *
 *     bytes ── opcode ──> stack of values ──> the one left at STOP is the root
 *                           │     ▲
 *                           └memo ┘
 * The error is sticky: after the first, reading gives zeros, popping gives None, and the loop ends.
 *
 * Bounds: every length is checked against the bytes left; the stack, the marks and the memo are
 * limited in number and all values together in bytes; an opcode makes at most one value, except that
 * tuples, lists and dictionaries take what lies on the stack.  Values may be nested as deep as the
 * pickle is long, and may form cycles: code that traverses them must bound the traversal. */
#include "pickle.h"

#include "weightfile.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_STACK = 1000000,
    MAX_MEMO = 1000000,
    BLOCK = 1 << 16,
};

static const size_t max_pool = (size_t)512 << 20;

typedef struct block {
    struct block *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
} block;

struct zn_pickle {
    const unsigned char *p, *end;
    zn_pvalue **stack, **memo;
    size_t *marks; /* the height of the stack at each MARK */
    size_t n_stack, cap_stack, n_marks, cap_marks, n_memo, cap_memo;
    block *pool;
    size_t pool_size;
    const char *wrong; /* the first error, a phrase; NULL: none */
    bool no_memory;
    unsigned char op;
    const zn_pvalue *root;
    zn_pvalue none; /* stands for a missing value; never written */
};

static void *fail(zn_pickle *v, const char *wrong)
{
    if (!v->wrong)
        v->wrong = wrong;
    return NULL;
}

static void *fail_memory(zn_pickle *v)
{
    v->no_memory = true;
    return fail(v, "there is not enough memory");
}

/* ---- memory ----------------------------------------------------------------------------------- */

static void *alloc(zn_pickle *v, size_t size)
{
    block *b = v->pool;

    if (size > max_pool)
        return fail(v, "it holds too many values");
    size = (size + 15) & ~(size_t)15;
    if (!b || b->size - b->used < size) {
        size_t room = size > BLOCK ? size : BLOCK;

        if (room > max_pool - v->pool_size)
            return fail(v, "it holds too many values");
        b = malloc(sizeof *b + room);
        if (!b)
            return fail_memory(v);
        *b = (block){ .next = v->pool, .size = room };
        v->pool = b;
        v->pool_size += room;
    }
    b->used += size;
    return b->data + b->used - size;
}

/* The array with room for n elements, at most max, the new ones zero; NULL: it stays as it was. */
static void *grow(zn_pickle *v, void *array, size_t *cap, size_t n, size_t max, size_t size)
{
    size_t want = *cap ? *cap : 64;

    if (n <= *cap)
        return array;
    if (n > max)
        return fail(v, "it is nested too deep or remembers too much");
    while (want < n)
        want *= 2;
    char *bigger = realloc(array, want * size);

    if (!bigger)
        return fail_memory(v);
    memset(bigger + *cap * size, 0, (want - *cap) * size);
    *cap = want;
    return bigger;
}

static zn_pvalue *make(zn_pickle *v, zn_pkind kind)
{
    zn_pvalue *x = alloc(v, sizeof *x);

    if (!x)
        return &v->none;
    memset(x, 0, sizeof *x);
    x->kind = kind;
    return x;
}

/* ---- bytes -------------------------------------------------------------------------------------- */

/* The next n bytes, or NULL. */
static const unsigned char *take(zn_pickle *v, uint64_t n)
{
    const unsigned char *p = v->p;

    if (v->wrong || n > (size_t)(v->end - p))
        return fail(v, "it ends too early");
    v->p += n;
    return p;
}

/* A little-endian number of 1, 2, 4 or 8 bytes. */
static uint64_t number(zn_pickle *v, unsigned bytes)
{
    const unsigned char *p = take(v, bytes);
    uint64_t n = 0;

    for (unsigned i = 0; p && i < bytes; i++)
        n |= (uint64_t)p[i] << 8 * i;
    return n;
}

static zn_text text(zn_pickle *v, uint64_t len)
{
    const unsigned char *p = take(v, len);

    return p ? (zn_text){ (const char *)p, (size_t)len } : (zn_text){ "", 0 };
}

/* Up to a newline, which is consumed. */
static zn_text line(zn_pickle *v)
{
    const unsigned char *end = v->wrong ? NULL : memchr(v->p, '\n', (size_t)(v->end - v->p));

    if (!end)
        fail(v, "it ends too early");
    zn_text t = text(v, end ? (uint64_t)(end - v->p) : 0);

    take(v, 1);
    return t;
}

bool zn_text_is(zn_text t, const char *s)
{
    return t.len == strlen(s) && !memcmp(t.s, s, t.len);
}

/* ---- the stack -------------------------------------------------------------------------------- */

static void push(zn_pickle *v, zn_pvalue *x)
{
    if (v->wrong)
        return;
    zn_pvalue **s = grow(v, v->stack, &v->cap_stack, v->n_stack + 1, MAX_STACK, sizeof *s);

    if (!s)
        return;
    v->stack = s;
    s[v->n_stack++] = x;
}

static zn_pvalue *top(zn_pickle *v)
{
    size_t floor = v->n_marks ? v->marks[v->n_marks - 1] : 0; /* nothing is taken across a mark */

    if (v->wrong || v->n_stack == floor) {
        fail(v, "its stack runs empty");
        return &v->none;
    }
    return v->stack[v->n_stack - 1];
}

static zn_pvalue *pop(zn_pickle *v)
{
    zn_pvalue *x = top(v);

    if (!v->wrong)
        v->n_stack--;
    return x;
}

static void mark(zn_pickle *v)
{
    size_t *m = grow(v, v->marks, &v->cap_marks, v->n_marks + 1, MAX_STACK, sizeof *m);

    if (!m)
        return;
    v->marks = m;
    m[v->n_marks++] = v->n_stack;
}

/* Takes everything above the last mark, and the mark.  The values stay valid until the next push. */
static zn_pvalue **pop_mark(zn_pickle *v, size_t *n)
{
    *n = 0;
    if (v->wrong || !v->n_marks)
        return fail(v, "a mark is missing");
    size_t height = v->marks[--v->n_marks];

    *n = v->n_stack - height;
    v->n_stack = height;
    return *n ? v->stack + height : v->stack; /* which is NULL before the first push */
}

/* POP takes the mark itself when nothing lies above it. */
static void drop(zn_pickle *v)
{
    size_t n;

    if (v->n_marks && v->marks[v->n_marks - 1] == v->n_stack)
        pop_mark(v, &n);
    else
        pop(v);
}

static void remember(zn_pickle *v, uint64_t key)
{
    zn_pvalue *x = top(v), **m;

    if (key >= MAX_MEMO)
        fail(v, "it remembers too much");
    if (v->wrong)
        return;
    m = grow(v, v->memo, &v->cap_memo, (size_t)key + 1, MAX_MEMO, sizeof *m);
    if (!m)
        return;
    v->memo = m;
    v->n_memo += !m[key];
    m[key] = x;
}

static void recall(zn_pickle *v, uint64_t key)
{
    if (key >= v->cap_memo || !v->memo[key])
        fail(v, "it recalls what it never stored");
    else
        push(v, v->memo[key]);
}

/* ---- values ----------------------------------------------------------------------------------- */

static void push_int(zn_pickle *v, zn_pkind kind, int64_t i)
{
    zn_pvalue *x = make(v, kind);

    if (!v->wrong)
        x->i = i;
    push(v, x);
}

static void push_text(zn_pickle *v, zn_pkind kind, uint64_t len)
{
    zn_text t = text(v, len);
    zn_pvalue *x = make(v, kind);

    if (!v->wrong)
        x->text = t;
    push(v, x);
}

static void push_float(zn_pickle *v) /* big-endian, unlike all the rest */
{
    const unsigned char *p = take(v, 8);
    zn_pvalue *x = make(v, ZN_P_FLOAT);
    uint64_t bits = 0;

    for (int i = 0; p && i < 8; i++)
        bits = bits << 8 | p[i];
    if (!v->wrong)
        memcpy(&x->f, &bits, sizeof x->f);
    push(v, x);
}

/* A two's complement number of any length; one that int64_t cannot hold is ignored. */
static void push_long(zn_pickle *v, uint64_t len)
{
    const unsigned char *p = take(v, len);
    uint64_t n = 0;

    if (!p || len > 8) {
        push(v, make(v, ZN_P_OPAQUE));
        return;
    }
    for (uint64_t i = 0; i < len; i++)
        n |= (uint64_t)p[i] << 8 * i;
    if (len && len < 8 && p[len - 1] & 0x80)
        n |= UINT64_MAX << 8 * len;
    push_int(v, ZN_P_INT, (int64_t)n);
}

/* A number in decimal, as protocol 0 writes it: "12", "12L", and "00" and "01" for false and true. */
static void push_decimal(zn_pickle *v)
{
    zn_text t = line(v);
    bool negative = t.len && t.s[0] == '-', ok = t.len > (size_t)negative;
    int64_t n = 0;

    if (zn_text_is(t, "00") || zn_text_is(t, "01")) {
        push_int(v, ZN_P_BOOL, t.s[1] == '1');
        return;
    }
    for (size_t i = negative; i < t.len && ok; i++) {
        int digit = t.s[i] - '0';

        if (t.s[i] == 'L' && i + 1 == t.len && i > (size_t)negative)
            break;
        ok = digit >= 0 && digit <= 9 && !__builtin_mul_overflow(n, 10, &n) && !__builtin_sub_overflow(n, digit, &n);
    }
    if (!ok || (!negative && n == INT64_MIN))
        push(v, make(v, ZN_P_OPAQUE));
    else
        push_int(v, ZN_P_INT, negative ? n : -n);
}

static uint64_t memo_key(zn_pickle *v)
{
    zn_text t = line(v);
    uint64_t n = 0;

    if (!t.len || t.len > 7)
        fail(v, "a key of its memo is not a number");
    for (size_t i = 0; i < t.len && !v->wrong; i++) {
        if (t.s[i] < '0' || t.s[i] > '9')
            fail(v, "a key of its memo is not a number");
        n = n * 10 + (uint64_t)(t.s[i] - '0');
    }
    return n;
}

/* Appends n values to a list, a tuple or a dictionary. */
static void append(zn_pickle *v, zn_pvalue *x, zn_pvalue *const *item, size_t n)
{
    if (v->wrong || !n)
        return;
    if (x->list.cap - x->list.n < n) {
        size_t cap = x->list.cap ? 2 * x->list.cap : n;

        while (cap - x->list.n < n)
            cap *= 2;
        const zn_pvalue **bigger = alloc(v, cap * sizeof *bigger);

        if (!bigger)
            return;
        if (x->list.n)
            memcpy(bigger, x->list.item, x->list.n * sizeof *bigger);
        x->list.item = bigger;
        x->list.cap = cap;
    }
    for (size_t i = 0; i < n; i++)
        x->list.item[x->list.n++] = item[i];
}

static void push_marked(zn_pickle *v, zn_pkind kind)
{
    size_t n;
    zn_pvalue **item = pop_mark(v, &n), *x = make(v, kind);

    if (kind == ZN_P_DICT && n % 2)
        fail(v, "a key of a dictionary has no value");
    append(v, x, item, n);
    push(v, x);
}

static void push_tuple(zn_pickle *v, size_t n)
{
    zn_pvalue *x = make(v, ZN_P_TUPLE), *item[3];

    for (size_t i = n; i > 0; i--)
        item[i - 1] = pop(v);
    append(v, x, item, n);
    push(v, x);
}

/* Adds the marked values to what lies below them: a container of that kind, or an opaque one. */
static void add_marked(zn_pickle *v, zn_pkind kind)
{
    size_t n;
    zn_pvalue **item = pop_mark(v, &n), *x = top(v);

    if (kind == ZN_P_DICT && n % 2)
        fail(v, "a key of a dictionary has no value");
    if (x->kind == ZN_P_OPAQUE)
        return;
    if (x->kind != kind)
        fail(v, "it adds members to what has none");
    append(v, x, item, n);
}

static void add_one(zn_pickle *v, zn_pkind kind)
{
    zn_pvalue *item[2] = { &v->none, pop(v) };
    size_t n = kind == ZN_P_DICT ? 2 : 1;

    if (n == 2)
        item[0] = pop(v);
    zn_pvalue *x = top(v);

    if (x->kind == ZN_P_OPAQUE)
        return;
    if (x->kind != kind)
        fail(v, "it adds members to what has none");
    append(v, x, item + 2 - n, n);
}

static void push_named(zn_pickle *v, zn_text module, zn_text name)
{
    zn_pvalue *x = make(v, ZN_P_GLOBAL);

    if (!v->wrong) {
        x->global.module = module;
        x->global.name = name;
    }
    push(v, x);
}

static void push_global(zn_pickle *v)
{
    zn_text module = line(v), name = line(v);

    push_named(v, module, name);
}

static void stack_global(zn_pickle *v)
{
    zn_pvalue *name = pop(v), *module = pop(v);

    if (name->kind != ZN_P_STR || module->kind != ZN_P_STR)
        fail(v, "a class is not named by strings");
    else
        push_named(v, module->text, name->text);
}

/* ---- PyTorch ---------------------------------------------------------------------------------- */

static const struct {
    const char *storage, *name;
    zn_type dtype;
} torch_types[] = {
    { "FloatStorage", "float32", ZN_F32 },
    { "DoubleStorage", "float64", ZN_F64 },
    { "HalfStorage", "float16", ZN_F16 },
    { "BFloat16Storage", "bfloat16", ZN_BF16 },
    { "LongStorage", "int64", ZN_I64 },
    { "IntStorage", "int32", ZN_I32 },
    { "ShortStorage", "int16", ZN_I16 },
    { "CharStorage", "int8", ZN_I8 },
    { "ByteStorage", "uint8", ZN_U8 },
    { "BoolStorage", "bool", ZN_BOOL },
    { "", "uint16", ZN_U16 },
    { "", "uint32", ZN_U32 },
    { "", "uint64", ZN_U64 },
    { "", "float8_e4m3fn", ZN_F8_E4M3 },
    { "", "float8_e5m2", ZN_F8_E5M2 },
};

/* The type that a class of storages or a torch.dtype stands for, or -1. */
static int torch_type(const zn_pvalue *global)
{
    zn_text name = global->global.name;

    for (size_t i = 0; name.len && i < sizeof torch_types / sizeof *torch_types; i++)
        if (zn_text_is(name, torch_types[i].storage) || zn_text_is(name, torch_types[i].name))
            return torch_types[i].dtype;
    return -1;
}

static bool is_global(const zn_pvalue *x, const char *module, const char *name)
{
    return x->kind == ZN_P_GLOBAL && zn_text_is(x->global.module, module) && zn_text_is(x->global.name, name);
}

static bool is_list(const zn_pvalue *x, size_t n)
{
    return x->kind == ZN_P_TUPLE && x->list.n >= n;
}

/* ('storage', class, key, device, length): the device does not matter here. */
static void push_storage(zn_pickle *v)
{
    const zn_pvalue *id = pop(v), *const *arg = id->list.item;

    if (!is_list(id, 5) || arg[0]->kind != ZN_P_STR || !zn_text_is(arg[0]->text, "storage") ||
        arg[1]->kind != ZN_P_GLOBAL || arg[2]->kind != ZN_P_STR || arg[4]->kind != ZN_P_INT) {
        push(v, make(v, ZN_P_OPAQUE));
        return;
    }
    zn_pvalue *x = make(v, ZN_P_STORAGE);

    if (!v->wrong) {
        x->storage.key = arg[2]->text;
        x->storage.type = arg[1]->global.name;
        x->storage.dtype = torch_type(arg[1]);
        x->storage.len = arg[4]->i;
    }
    push(v, x);
}

/* A tuple of at most 8 numbers; -1 if it is anything else. */
static int numbers(int64_t *out, const zn_pvalue *x)
{
    if (x->kind != ZN_P_TUPLE || x->list.n > ZN_MAX_DIMS)
        return -1;
    for (size_t i = 0; i < x->list.n; i++) {
        if (x->list.item[i]->kind != ZN_P_INT)
            return -1;
        out[i] = x->list.item[i]->i;
    }
    return (int)x->list.n;
}

/* (storage, offset, shape, strides, ...), and as the seventh the type if `typed`. */
static zn_pvalue *rebuild_tensor(zn_pickle *v, const zn_pvalue *args, bool typed)
{
    const zn_pvalue *const *arg = args->list.item;
    zn_ptensor t = { .dtype = -1 };

    if (!is_list(args, typed ? 7 : 4) || arg[0]->kind != ZN_P_STORAGE || arg[1]->kind != ZN_P_INT ||
        (typed && arg[6]->kind != ZN_P_GLOBAL))
        return fail(v, "a tensor is put together in an unknown way");
    t.n_dims = numbers(t.shape, arg[2]);
    if (t.n_dims < 0 || numbers(t.stride, arg[3]) != t.n_dims)
        return fail(v, "a tensor has an unknown kind of shape, or more than 8 dimensions");
    t.storage = arg[0];
    t.offset = arg[1]->i;
    t.dtype = typed ? torch_type(arg[6]) : arg[0]->storage.dtype;
    t.dtype_name = typed ? arg[6]->global.name : arg[0]->storage.type;

    zn_pvalue *x = make(v, ZN_P_TENSOR);
    zn_ptensor *copy = alloc(v, sizeof *copy);

    if (!v->wrong) {
        *copy = t;
        x->tensor = copy;
    }
    return x;
}

/* What calling fn(*args) gives, for the few functions that are known; NULL if it is none of them. */
static zn_pvalue *rebuild(zn_pickle *v, const zn_pvalue *fn, const zn_pvalue *args)
{
    static const char utils[] = "torch._utils";

    if (is_global(fn, utils, "_rebuild_tensor_v2") || is_global(fn, utils, "_rebuild_tensor"))
        return rebuild_tensor(v, args, false);
    if (is_global(fn, utils, "_rebuild_tensor_v3"))
        return rebuild_tensor(v, args, true);
    return NULL;
}

static void reduce(zn_pickle *v)
{
    const zn_pvalue *args = pop(v), *fn = pop(v), *const *arg = args->list.item;
    zn_pvalue *x = NULL;

    if (v->wrong)
        return;
    if (args->kind != ZN_P_TUPLE)
        fail(v, "a call has no arguments");
    else if (is_global(fn, "collections", "OrderedDict") || is_global(fn, "collections", "defaultdict"))
        x = make(v, ZN_P_DICT); /* the members follow */
    else if ((is_global(fn, "torch._utils", "_rebuild_parameter") ||
              is_global(fn, "torch._utils", "_rebuild_parameter_with_state")) &&
             is_list(args, 1) && arg[0]->kind == ZN_P_TENSOR) {
        x = make(v, ZN_P_TENSOR);
        if (!v->wrong)
            x->tensor = arg[0]->tensor;
    } else if (is_global(fn, "torch._tensor", "_rebuild_from_type_v2") && is_list(args, 3) &&
               arg[2]->kind == ZN_P_TUPLE) /* (function, class, its arguments, state) */
        x = rebuild(v, arg[0], arg[2]);
    else
        x = rebuild(v, fn, args);
    push(v, x ? x : make(v, ZN_P_OPAQUE));
}

static void push_object(zn_pickle *v, int n_args) /* NEWOBJ, NEWOBJ_EX: class and arguments */
{
    for (int i = 0; i <= n_args; i++)
        pop(v);
    push(v, make(v, ZN_P_OPAQUE));
}

/* ---- opcodes ---------------------------------------------------------------------------------- */

/* Executes v->op; false at STOP. */
static bool step(zn_pickle *v)
{
    size_t n;

    /* clang-format off */
    switch (v->op) {
    case 0x80: number(v, 1); break; /* PROTO */
    case 0x95: number(v, 8); break; /* FRAME */
    case '.': v->root = pop(v); return false;
    case '(': mark(v); break;
    case '0': drop(v); break;
    case '1': pop_mark(v, &n); break;
    case '2': push(v, top(v)); break;
    case 'N': push(v, make(v, ZN_P_NONE)); break;
    case 0x88: push_int(v, ZN_P_BOOL, 1); break;
    case 0x89: push_int(v, ZN_P_BOOL, 0); break;
    case 'K': push_int(v, ZN_P_INT, (int64_t)number(v, 1)); break;
    case 'M': push_int(v, ZN_P_INT, (int64_t)number(v, 2)); break;
    case 'J': push_int(v, ZN_P_INT, (int32_t)number(v, 4)); break;
    case 0x8a: push_long(v, number(v, 1)); break;
    case 0x8b: push_long(v, number(v, 4)); break;
    case 'I':
    case 'L': push_decimal(v); break;
    case 'G': push_float(v); break;
    case 'X': push_text(v, ZN_P_STR, number(v, 4)); break;
    case 0x8c: push_text(v, ZN_P_STR, number(v, 1)); break;
    case 0x8d: push_text(v, ZN_P_STR, number(v, 8)); break;
    case 'U': push_text(v, ZN_P_STR, number(v, 1)); break; /* what Python 2 called a string */
    case 'T': push_text(v, ZN_P_STR, number(v, 4)); break;
    case 'C': push_text(v, ZN_P_BYTES, number(v, 1)); break;
    case 'B': push_text(v, ZN_P_BYTES, number(v, 4)); break;
    case 0x8e:
    case 0x96: push_text(v, ZN_P_BYTES, number(v, 8)); break;
    case ')': push_tuple(v, 0); break;
    case 0x85: push_tuple(v, 1); break;
    case 0x86: push_tuple(v, 2); break;
    case 0x87: push_tuple(v, 3); break;
    case 't': push_marked(v, ZN_P_TUPLE); break;
    case ']': push(v, make(v, ZN_P_LIST)); break;
    case 'l': push_marked(v, ZN_P_LIST); break;
    case 'a': add_one(v, ZN_P_LIST); break;
    case 'e': add_marked(v, ZN_P_LIST); break;
    case '}': push(v, make(v, ZN_P_DICT)); break;
    case 'd': push_marked(v, ZN_P_DICT); break;
    case 's': add_one(v, ZN_P_DICT); break;
    case 'u': add_marked(v, ZN_P_DICT); break;
    case 0x8f: push(v, make(v, ZN_P_OPAQUE)); break; /* EMPTY_SET; ADDITEMS; FROZENSET */
    case 0x90: add_marked(v, ZN_P_OPAQUE); break;
    case 0x91: pop_mark(v, &n), push(v, make(v, ZN_P_OPAQUE)); break;
    case 'q': remember(v, number(v, 1)); break;
    case 'r': remember(v, number(v, 4)); break;
    case 'p': remember(v, memo_key(v)); break;
    case 'h': recall(v, number(v, 1)); break;
    case 'j': recall(v, number(v, 4)); break;
    case 'g': recall(v, memo_key(v)); break;
    case 0x94: remember(v, v->n_memo); break;
    case 'c': push_global(v); break;
    case 0x93: stack_global(v); break;
    case 'Q': push_storage(v); break;
    case 'R': reduce(v); break;
    case 0x81: push_object(v, 1); break;
    case 0x92: push_object(v, 2); break;
    case 'b': pop(v), top(v); break; /* BUILD: attributes of what stays on top do not matter */
    default: fail(v, "it holds what PyTorch does not write");
    }
    /* clang-format on */
    return true;
}

zn_status zn_pickle_open(zn_pickle **out, const void *data, size_t size, const char *label, zn_error *err)
{
    const unsigned char *begin = data;
    zn_pickle *v = calloc(1, sizeof *v);
    bool go = true;

    *out = NULL;
    if (!v)
        return zn_fail(err, ZN_E_MEMORY, "There is not enough memory to read %s", label);
    v->p = begin;
    v->end = begin + size;
    v->root = &v->none;
    while (go && !v->wrong) {
        v->op = (unsigned char)number(v, 1);
        go = !v->wrong && step(v);
    }
    if (v->wrong) {
        zn_status s = zn_fail(err, v->no_memory ? ZN_E_MEMORY : ZN_E_FILE,
                              "%s cannot be read: its pickle is damaged or unknown; %s (opcode "
                              "0x%02x before byte %zu)",
                              label, zn_tr(v->wrong), v->op, (size_t)(v->p - begin));

        zn_pickle_close(&v);
        return s;
    }
    *out = v;
    return ZN_OK;
}

void zn_pickle_close(zn_pickle **p)
{
    zn_pickle *v = p ? *p : NULL;

    if (!v)
        return;
    while (v->pool) {
        block *b = v->pool;

        v->pool = b->next;
        free(b);
    }
    free(v->stack);
    free(v->memo);
    free(v->marks);
    free(v);
    *p = NULL;
}

const zn_pvalue *zn_pickle_root(const zn_pickle *p)
{
    return p->root;
}
