/* SPDX-License-Identifier: MIT */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    HANG_S = 20,
    SLICE_MS = 20000,   /* of a child */
    STATE_MS = 5000,    /* between two writes of the state */
    MOST_FAILURES = 25, /* of a target in one call: then it rests */
    MOST_JOBS = 64,
    MOST_PARTS = 96,
};
#define NO_CASE UINT64_MAX

typedef struct slot {               /* one child at a time tells the parent */
    volatile uint64_t at, began_ms; /* its case or NO_CASE, and when that began on its own processor's clock */
} slot;

static struct shared {
    atomic_uint_fast64_t next; /* the next case for whoever is free */
    volatile bool stop;
    slot slots[MOST_JOBS];
    atomic_uint_fast64_t parts[MOST_PARTS][ATTACK_COLUMNS];
} * now;
static char folder[64];
static const char *parts_of; /* the target that has parts */
static const char *(*part_name)(int i);

static uint64_t ms_of(clockid_t clock)
{
    struct timespec t = { 0 };

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t ms(void)
{
    return ms_of(CLOCK_MONOTONIC);
}

const char *attack_folder(void)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/zenith-attack-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        if (!mkdtemp(folder))
            abort();
    }
    return folder;
}

const char *attack_path(const char *name)
{
    static char path[3][256];
    static int turn;

    turn = (turn + 1) % 3;
    snprintf(path[turn], sizeof path[turn], "%s/%s", attack_folder(), name);
    return path[turn];
}

static void empty_folder(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char name[600];

        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (unlink(name))
            empty_folder(name);
    }
    if (d)
        closedir(d);
    rmdir(path);
}

void attack_load(attack_seeds *s, const char *path, const char *prefix)
{
    struct dirent **names = NULL;
    int n = scandir(path, &names, NULL, alphasort);

    s->list = calloc((size_t)(n > 0 ? n : 1), sizeof *s->list);
    if (!s->list)
        abort();
    for (int i = 0; i < n; i++) {
        char name[1024];

        snprintf(name, sizeof name, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.' && !strncmp(names[i]->d_name, prefix, strlen(prefix)) &&
            bytes_load(&s->list[s->n], name))
            s->n++;
        free(names[i]);
    }
    free(names);
    if (!s->n) {
        fprintf(stderr, "%s: no files %s*\n", path, prefix);
        exit(2);
    }
}

/* ---- one case --------------------------------------------------------------------------------------------------------- */

static rnd rnd_of(const attack_target *t, uint64_t seed)
{
    rnd r = { seed };

    for (const char *p = t->name; *p; p++)
        r.state = r.state * 31 + (uint8_t)*p;
    rnd_next(&r);
    return r;
}

static bool run_bytes(const attack_target *t, const bytes *b, rnd *r, const char **why)
{
    bytes exact = { malloc(b->len + !b->len), b->len, b->len }; /* so that the sanitizer sees its end */
    bool ok;

    if (!exact.at)
        abort();
    if (b->len)
        memcpy(exact.at, b->at, b->len);
    *why = "";
    ok = t->run(&exact, r, why);
    free(exact.at);
    return ok;
}

/* Leaks are counted case by case: at the end of a process their case would be unknown. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));
const char *__asan_default_options(void);

__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_leaks=0:allocator_may_return_null=1";
}

static size_t allocated(void)
{
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
}

static bool run_case(const attack_target *t, uint64_t seed, bytes *room, const char **why)
{
    rnd r = rnd_of(t, seed), again;
    size_t before;

    room->len = 0;
    if (t->make)
        t->make(room, &r);
    again = r;
    before = allocated();
    if (!run_bytes(t, room, &r, why))
        return false;
    for (int i = 0; i < 2 && !t->keeps && allocated() > before; i++) { /* the first time, a library may keep some */
        if (i == 1) {
            *why = "memory leaks";
            return false;
        }
        before = allocated();
        r = again;
        if (!run_bytes(t, room, &r, why))
            return false;
    }
    return true;
}

void attack_parts(const char *target, const char *(*part)(int i))
{
    parts_of = target;
    part_name = part;
}

void attack_count(int part, int column)
{
    if (now && part >= 0 && part < MOST_PARTS) /* not with --case */
        atomic_fetch_add(&now->parts[part][column], 1);
}

/* ---- children --------------------------------------------------------------------------------------------------------- */

typedef struct worker {
    slot *slot;
    char said[1024]; /* the file that has its child's stderr */
    pid_t pid;       /* 0: no child */
    clockid_t clock;
    uint64_t quiet_ms, seen; /* since when its case is the same: who sleeps takes no time */
} worker;

static void child(const attack_target *t, const worker *w, uint64_t until_ms, void (*begin)(void))
{
    const struct rlimit no_core = { 0, 0 };
    bytes room = { 0 };
    const char *why;
    int done = 0, fd = open(w->said, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644), null = open("/dev/null", O_WRONLY);
    const size_t len = strlen(folder);

    setrlimit(RLIMIT_CORE, &no_core);
    dup2(null, 1);
    dup2(fd, 2);
    snprintf(folder + len, sizeof folder - len, "/%d",
             (int)(w->slot - now->slots)); /* the children's files have one name */
    mkdir(folder, 0700);
    if (begin)
        begin();
    do { /* at least one, however busy the machine is */
        w->slot->began_ms = ms_of(CLOCK_PROCESS_CPUTIME_ID);
        w->slot->at = atomic_fetch_add(&now->next, 1);
        if (!run_case(t, w->slot->at, &room, &why)) {
            fprintf(stderr, "wrong: %s\n", why);
            _exit(99);
        }
        w->slot->at = NO_CASE;
        if (++done % 256 == 0 && ftruncate(fd, 0)) /* libraries complain */
            break;
    } while (!now->stop && ms() < until_ms && done != t->in_child);
    bytes_free(&room);
    exit(0);
}

static void start(worker *w, const attack_target *t, uint64_t until_ms, void (*begin)(void))
{
    *w->slot = (slot){ NO_CASE, UINT32_MAX };
    w->quiet_ms = ms();
    w->seen = NO_CASE;
    fflush(NULL);
    w->pid = fork();
    if (w->pid < 0)
        exit(2);
    if (!w->pid)
        child(t, w, until_ms, begin);
    if (clock_getcpuclockid(w->pid, &w->clock))
        exit(2);
}

/* False: the child goes on.  True: it has ended, or is ended here; *what is NULL if well, else what happened. */
static bool ended(worker *w, int hang_s, const char **what)
{
    static char text[64];
    int status;

    *what = NULL;
    if (!waitpid(w->pid, &status, WNOHANG)) {
        if (w->seen != w->slot->at) {
            w->quiet_ms = ms();
            w->seen = w->slot->at;
        }
        if (ms_of(w->clock) <= w->slot->began_ms + (uint64_t)hang_s * 1000 &&
            ms() <= w->quiet_ms + (uint64_t)hang_s * 30000)
            return false;
        kill(w->pid, SIGKILL);
        waitpid(w->pid, &status, 0);
        *what = "hangs";
    } else if (WIFSIGNALED(status)) {
        snprintf(text, sizeof text, "signal %d", WTERMSIG(status));
        *what = text;
    } else if (WEXITSTATUS(status)) {
        snprintf(text, sizeof text, "exit status %d", WEXITSTATUS(status));
        *what = text;
    }
    w->pid = 0;
    return true;
}

typedef struct tally {
    uint64_t next, failures; /* all cases below next have been run */
} tally;

static void read_state(tally *s, const char *path)
{
    FILE *f = fopen(path, "r");

    *s = (tally){ 0, 0 };
    if (f && fscanf(f, "%" SCNu64 " %" SCNu64, &s->next, &s->failures) != 2)
        *s = (tally){ 0, 0 };
    if (f)
        fclose(f);
}

static void write_state(const tally *s, const char *path)
{
    char beside[1100];
    FILE *f;

    snprintf(beside, sizeof beside, "%s.new", path);
    f = fopen(beside, "w");
    if (!f || fprintf(f, "%" PRIu64 " %" PRIu64 "\n", s->next, s->failures) < 0 || fclose(f) || rename(beside, path)) {
        fprintf(stderr, "%s cannot be written: %s\n", path, strerror(errno));
        exit(2);
    }
}

/* A case's bytes into a file, by a child: generators load what begin() loads, and may break. */
static void save_case(const attack_target *t, uint64_t seed, const char *path, void (*begin)(void))
{
    pid_t pid = fork();

    if (!pid) {
        bytes b = { 0 };
        rnd r = rnd_of(t, seed);

        if (begin)
            begin();
        t->make(&b, &r);
        _exit(!bytes_save(&b, path));
    }
    waitpid(pid, NULL, 0);
}

static void keep(const attack_target *t, uint64_t seed, const char *dir, const char *said, const char *what,
                 void (*begin)(void))
{
    char path[1100];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s-%" PRIu64, dir, t->name, seed);
    if (t->make)
        save_case(t, seed, path, begin);
    strcat(path, ".txt");
    rename(said, path);
    if ((f = fopen(path, "a"))) {
        fprintf(f, "%s, case %" PRIu64 ": %s\n", t->name, seed, what);
        fclose(f);
    }
    printf("not ok %s: case %" PRIu64 ": %s; see %s\n", t->name, seed, what, path);
    fflush(stdout);
}

/* The parts of a target, counted over all calls: FOLDER/TARGET.parts has a line for each. */
static void read_parts(const char *path)
{
    FILE *f = fopen(path, "r");
    uint64_t n[ATTACK_COLUMNS];
    char name[64];

    memset(now->parts, 0, sizeof now->parts);
    while (f && fscanf(f, "%63s %" SCNu64 " %" SCNu64 " %" SCNu64, name, &n[0], &n[1], &n[2]) == 1 + ATTACK_COLUMNS)
        for (int i = 0; part_name(i); i++)
            for (int k = 0; k < ATTACK_COLUMNS && !strcmp(part_name(i), name); k++)
                now->parts[i][k] = n[k];
    if (f)
        fclose(f);
}

/* Returns the name of a part that nothing was done with, though there were many cases. */
static const char *write_parts(const char *path)
{
    FILE *f = fopen(path, "w");
    const char *missed = NULL;

    for (int i = 0; part_name(i); i++) {
        const uint64_t n[ATTACK_COLUMNS] = { now->parts[i][0], now->parts[i][1], now->parts[i][2] };

        if (f)
            fprintf(f, "%-22s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n", part_name(i), n[0], n[1], n[2]);
        if (n[0] > 200 && !n[ATTACK_COLUMNS - 1])
            missed = part_name(i);
    }
    if (f)
        fclose(f);
    return missed;
}

/* The first case that is not done. */
static uint64_t first_open(const worker *w, int jobs)
{
    uint64_t first = now->next;

    for (int i = 0; i < jobs; i++)
        if (w[i].pid && w[i].slot->at < first)
            first = w[i].slot->at;
    return first;
}

/* Failures of this call. */
static int attack(const attack_target *t, const char *dir, int jobs, uint64_t part_ms, void (*begin)(void),
                  uint64_t *cases)
{
    const bool has_parts = parts_of && !strcmp(parts_of, t->name);
    const uint64_t until = ms() + part_ms;
    uint64_t written = ms();
    char path[1024], parts[1024];
    static worker w[MOST_JOBS];
    const char *missed = NULL;
    int failures = 0, running = 0;
    tally s;

    snprintf(path, sizeof path, "%s/%s.state", dir, t->name);
    snprintf(parts, sizeof parts, "%s/%s.parts", dir, t->name);
    read_state(&s, path);
    *cases = s.next;
    now->next = s.next;
    now->stop = false;
    if (has_parts)
        read_parts(parts);
    for (int i = 0; i < jobs; i++) {
        w[i] = (worker){ .slot = &now->slots[i] };
        snprintf(w[i].said, sizeof w[i].said, "%s/%s.said.%d", dir, t->name, i);
    }
    do {
        running = 0;
        for (int i = 0; i < jobs; i++) {
            const char *what;

            if (w[i].pid && ended(&w[i], t->hang_s ? t->hang_s : HANG_S, &what) && what) {
                keep(t, w[i].slot->at == NO_CASE ? now->next : w[i].slot->at, dir, w[i].said, what, begin);
                s.failures++;
                now->stop = ++failures >= MOST_FAILURES;
            }
            if (!w[i].pid && ms() < until && !now->stop)
                start(&w[i], t, ms() + SLICE_MS < until ? ms() + SLICE_MS : until, begin);
            running += w[i].pid != 0;
        }
        if (!running || ms() > written + STATE_MS) {
            s.next = first_open(w, jobs);
            write_state(&s, path);
            missed = has_parts ? write_parts(parts) : NULL;
            written = ms();
        }
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    } while (running);
    for (int i = 0; i < jobs; i++)
        unlink(w[i].said);
    *cases = s.next - *cases;
    printf("%-22s %12" PRIu64 " cases, %9" PRIu64 " now, %6.0f a second, %" PRIu64 " failures, %d now\n", t->name,
           s.next, *cases, (double)*cases * 1000 / (double)(part_ms + !part_ms), s.failures, failures);
    if (missed) {
        printf("not ok %s: see the last column of %s in %s\n", t->name, missed, parts);
        failures++;
    }
    if (!failures && *cases)
        printf("ok %s\n", t->name);
    fflush(stdout);
    return failures;
}

static const attack_target *named(const attack_target *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i];
    fprintf(stderr, "no target '%s'; there are:", name);
    for (int i = 0; i < n; i++)
        fprintf(stderr, " %s", list[i].name);
    fprintf(stderr, "\n");
    exit(2);
}

static int once(const attack_target *t, bool file, const char *arg, void (*begin)(void))
{
    const uint64_t seed = file ? 0 : strtoull(arg, NULL, 10);
    bytes b = { 0 };
    rnd r = rnd_of(t, seed);
    const char *why = "";
    bool ok;

    if (begin)
        begin();
    if (file && !bytes_load(&b, arg)) {
        fprintf(stderr, "%s cannot be read\n", arg);
        return 2;
    }
    ok = file ? run_bytes(t, &b, &r, &why) : run_case(t, seed, &b, &why);
    bytes_free(&b);
    if (*folder)
        empty_folder(folder);
    printf("%s%s\n", ok ? "good" : "wrong: ", ok ? "" : why);
    return !ok;
}

int attack_main(int argc, char **argv, const attack_target *list, int n, void (*begin)(void))
{
    int passed = 0, failed = 0, jobs = 1, chosen;
    double seconds;

    if (argc == 4 && (!strcmp(argv[1], "--case") || !strcmp(argv[1], "--file")))
        return once(named(list, n, argv[2]), argv[1][2] == 'f', argv[3], begin);
    if (argc > 2 && !strcmp(argv[1], "-j")) {
        jobs = atoi(argv[2]) < MOST_JOBS ? atoi(argv[2]) : MOST_JOBS;
        argc -= 2;
        argv += 2;
    }
    if (argc < 3 || (seconds = atof(argv[2])) <= 0 || jobs < 1) {
        fprintf(stderr,
                "usage: PROGRAM [-j JOBS] FOLDER SECONDS [TARGET...] | --case TARGET SEED | --file TARGET FILE\n");
        return 2;
    }
    mkdir(argv[1], 0755);
    now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (now == MAP_FAILED)
        return 2;
    attack_folder(); /* one for all children: they may not live to delete theirs */
    chosen = argc > 3 ? argc - 3 : n;
    for (int i = 0; i < chosen; i++) {
        const attack_target *t = argc > 3 ? named(list, n, argv[3 + i]) : &list[i];
        uint64_t cases;
        int bad = attack(t, argv[1], jobs, (uint64_t)(seconds * 1000 / chosen), begin, &cases);

        if (!bad && !cases)
            printf("not ok %s: no case was run\n", t->name);
        passed += !bad && cases;
        failed += bad || !cases;
    }
    empty_folder(folder);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
