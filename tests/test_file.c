/* test_file: mapped files, folders, and replacement that survives kills and full disks. */
/* labels: quick */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include <sys/resource.h>
#include <sys/wait.h>

#include "test.h"

static struct qkv_context ctx = {.threads = 1};

static void assert_file(const char *path, const char *expected) {
    size_t n;
    char *text = test_read_file(path, &n);
    assert_non_null(text);
    assert_string_equal(text, expected);
    assert_int_equal(n, strlen(expected));
    free(text);
}

static size_t entries_in(const char *folder) {
    size_t count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    while (readdir(entries)) count++;
    closedir(entries);
    return count - 2;
}

/* A fresh folder with a file "model" of some text; returns its path. */
static const char *folder_with_model(const char *name) {
    char path[1024];
    assert_ok(&ctx, qkv_make_folder(&ctx, test_path(name)));
    snprintf(path, sizeof path, "%s/model", name);
    test_write_file(test_path(path), "old", 3);
    return test_path(path);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static enum qkv_status map_file(const char *path, struct qkv_map *map) {
    struct qkv_file file;
    *map = (struct qkv_map){0};
    enum qkv_status status = qkv_file_open(&ctx, path, &file);
    if (!status) status = qkv_file_map(&file, map);
    qkv_file_close(&file);
    return status;
}

static void mapping(void **state) {
    (void)state;
    struct qkv_map map;
    const char *path = test_path("mapped");
    test_write_file(path, "some\0bytes", 10);
    assert_ok(&ctx, map_file(path, &map));
    assert_int_equal(map.size, 10);
    assert_memory_equal(map.data, "some\0bytes", 10);
    qkv_unmap_file(&map);
    assert_null(map.data);
    qkv_unmap_file(&map);
    test_write_file(path, "", 0);
    assert_ok(&ctx, map_file(path, &map));
    assert_true(map.data == NULL && map.size == 0);
    qkv_unmap_file(&map);
}

static void mapping_fails(void **state) {
    (void)state;
    struct qkv_map map;
    assert_status(&ctx, map_file(test_path("missing"), &map), QKV_FILE);
    assert_message(&ctx, "cannot read ");
    assert_message(&ctx, "missing: No such file or directory; check the path");
    assert_null(map.data);
    qkv_unmap_file(&map);
    assert_status(&ctx, map_file(test_folder(), &map), QKV_FILE);
    assert_message(&ctx, "it is a folder; name a file");
    assert_status(&ctx, map_file("/dev/zero", &map), QKV_FILE);
    assert_message(&ctx, "it is a pipe or device");
    assert_int_equal(mkfifo(test_path("pipe"), 0666), 0);
    assert_status(&ctx, map_file(test_path("pipe"), &map), QKV_FILE); /* and does not wait */
    assert_message(&ctx, "it is a pipe or device");
    assert_status(&ctx, map_file("", &map), QKV_FILE);
    if (geteuid() != 0) {
        test_write_file(test_path("secret"), "x", 1);
        assert_int_equal(chmod(test_path("secret"), 0), 0);
        assert_status(&ctx, map_file(test_path("secret"), &map), QKV_FILE);
        assert_message(&ctx, "no permission; check the permissions");
    }
}

/* ---- folders and paths ------------------------------------------------------------------------------------------ */

static void folders(void **state) {
    (void)state;
    assert_false(qkv_file_exists(test_path("a")));
    assert_ok(&ctx, qkv_make_folder(&ctx, test_path("a/b//c/")));
    assert_true(qkv_file_exists(test_path("a/b/c")));
    assert_ok(&ctx, qkv_make_folder(&ctx, test_path("a/b/c")));
    assert_ok(&ctx, qkv_make_folder(&ctx, "/"));
    test_write_file(test_path("a/file"), "x", 1);
    assert_status(&ctx, qkv_make_folder(&ctx, test_path("a/file")), QKV_FILE);
    assert_message(&ctx, "a file has that name");
    assert_status(&ctx, qkv_make_folder(&ctx, test_path("a/file/below")), QKV_FILE);
    assert_message(&ctx, "a file has that name");
    assert_status(&ctx, qkv_make_folder(&ctx, ""), QKV_FILE);
    assert_status(&ctx, qkv_make_folder(&ctx, "/proc/no/such"), QKV_FILE);
    assert_message(&ctx, "cannot make the folder /proc/no: ");
}

static void paths(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}, {"a", "", "a/"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char *path = qkv_join_path(&ctx, cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        free(path);
    }
}

/* ---- replacement ------------------------------------------------------------------------------------------------ */

static void replacing(void **state) {
    (void)state;
    const char *path = folder_with_model("replacing");
    struct qkv_replace r;
    assert_ok(&ctx, qkv_replace_begin(&ctx, path, &r));
    assert_ok(&ctx, qkv_replace_write(&r, "new ", 4));
    assert_true(fprintf(r.file, "text") == 4);
    assert_file(path, "old");
    assert_ok(&ctx, qkv_replace_commit(&r));
    assert_file(path, "new text");
    qkv_replace_cancel(&r);
    assert_status(&ctx, qkv_replace_commit(&r), QKV_ARGUMENT);

    assert_ok(&ctx, qkv_replace_begin(&ctx, path, &r));
    assert_ok(&ctx, qkv_replace_write(&r, "never", 5));
    qkv_replace_cancel(&r);
    assert_file(path, "new text");
    assert_ok(&ctx, qkv_write_file(&ctx, path, NULL, 0));
    assert_file(path, "");
    assert_int_equal(entries_in(test_path("replacing")), 1);

    size_t n = 3 << 20;
    char *large = malloc(n + 1);
    memset(large, 'x', n);
    large[n] = 0;
    assert_ok(&ctx, qkv_write_file(&ctx, path, large, n));
    assert_file(path, large);
    free(large);
}

static void long_and_bare_names(void **state) {
    (void)state;
    char name[300], path[512];
    folder_with_model("names");
    memset(name, 'n', 255);
    name[255] = 0;
    snprintf(path, sizeof path, "names/%s", name);
    assert_ok(&ctx, qkv_write_file(&ctx, test_path(path), "long", 4));
    assert_file(test_path(path), "long");
    memset(name, 'n', 256);
    name[256] = 0;
    snprintf(path, sizeof path, "names/%s", name);
    assert_status(&ctx, qkv_write_file(&ctx, test_path(path), "long", 4), QKV_FILE);
    assert_message(&ctx, "choose a shorter name");

    char before[1024];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(test_path("names")), 0);
    assert_ok(&ctx, qkv_write_file(&ctx, "bare", "here", 4));
    assert_file("bare", "here");
    assert_int_equal(chdir(before), 0);
    assert_int_equal(entries_in(test_path("names")), 3);
}

static unsigned mode_of(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 0777;
}

static void modes(void **state) {
    (void)state;
    const char *path = folder_with_model("modes"), *other = test_path("modes/other");
    mode_t mask = umask(027);
    assert_ok(&ctx, qkv_write_file(&ctx, other, "x", 1));
    assert_int_equal(mode_of(other), 0640);
    assert_int_equal(chmod(path, 0604), 0);
    assert_ok(&ctx, qkv_write_file(&ctx, path, "x", 1));
    assert_int_equal(mode_of(path), 0604);
    assert_int_equal(chmod(path, 0666), 0); /* wider than the umask gives */
    assert_ok(&ctx, qkv_write_file(&ctx, path, "x", 1));
    assert_int_equal(mode_of(path), 0666);
    umask(mask);
    if (geteuid() == 0) { /* the owner stays too */
        assert_int_equal(chown(path, 12345, 54321), 0);
        assert_ok(&ctx, qkv_write_file(&ctx, path, "y", 1));
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        assert_true(info.st_uid == 12345 && info.st_gid == 54321);
    }
}

static void links(void **state) {
    (void)state;
    const char *path = folder_with_model("links/far");
    assert_int_equal(symlink("far/model", test_path("links/relative")), 0);
    assert_int_equal(symlink("relative", test_path("links/twice")), 0);
    assert_int_equal(symlink(path, test_path("links/absolute")), 0);
    assert_int_equal(symlink("far/nothing yet", test_path("links/dangling")), 0);
    assert_int_equal(symlink("loop", test_path("links/loop")), 0);
    static const char *const names[] = {"links/relative", "links/twice", "links/absolute"};
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        struct stat info;
        assert_ok(&ctx, qkv_write_file(&ctx, test_path(names[i]), names[i], strlen(names[i])));
        assert_file(path, names[i]);
        assert_int_equal(lstat(test_path(names[i]), &info), 0);
        assert_true(S_ISLNK(info.st_mode));
    }
    assert_ok(&ctx, qkv_write_file(&ctx, test_path("links/dangling"), "now", 3));
    assert_file(test_path("links/far/nothing yet"), "now");
    assert_status(&ctx, qkv_write_file(&ctx, test_path("links/loop"), "x", 1), QKV_FILE);
    assert_message(&ctx, "loop: Too many levels of symbolic links");
    assert_int_equal(entries_in(test_path("links")), 6);
    assert_int_equal(entries_in(test_path("links/far")), 2);
}

static void replacing_fails(void **state) {
    (void)state;
    struct qkv_replace r;
    const char *path = folder_with_model("fails");
    assert_status(&ctx, qkv_write_file(&ctx, test_path("fails"), "x", 1), QKV_FILE);
    assert_message(&ctx, "it is a folder; name a file");
    assert_status(&ctx, qkv_write_file(&ctx, test_path("no/such/folder"), "x", 1), QKV_FILE);
    assert_message(&ctx, "no/such/folder: No such file or directory; check the path");
    assert_status(&ctx, qkv_write_file(&ctx, test_path("fails/slash/"), "x", 1), QKV_FILE);
    assert_status(&ctx, qkv_write_file(&ctx, "", "x", 1), QKV_FILE);
    assert_message(&ctx, "cannot write \"\": ");
    assert_status(&ctx, qkv_replace_begin(&ctx, test_path("fails/model/x"), &r), QKV_FILE);
    assert_true(r.file == NULL && r.path == NULL && r.temporary == NULL);
    qkv_replace_cancel(&r);
    if (geteuid() != 0) {
        assert_int_equal(chmod(path, 0444), 0);
        assert_status(&ctx, qkv_write_file(&ctx, path, "x", 1), QKV_FILE);
        assert_message(&ctx, "no permission; check the permissions of the file and its folder");
        assert_int_equal(chmod(path, 0644), 0);
        assert_int_equal(chmod(test_path("fails"), 0555), 0);
        assert_status(&ctx, qkv_write_file(&ctx, path, "x", 1), QKV_FILE);
        assert_message(&ctx, "no permission; check the permissions of the file and its folder");
        assert_int_equal(chmod(test_path("fails"), 0755), 0);
    }
    assert_file(path, "old");
    assert_int_equal(entries_in(test_path("fails")), 1);

    /* The folder vanishes between begin and commit. */
    const char *gone = folder_with_model("gone");
    assert_ok(&ctx, qkv_replace_begin(&ctx, gone, &r));
    test_remove_tree(test_path("gone"));
    assert_status(&ctx, qkv_replace_commit(&r), QKV_FILE);
    assert_message(&ctx, "gone/model: No such file or directory");
}

/* In a child without root's rights, if this is root: what a read-only folder and file do. */
static void read_only_for_others(void **state) {
    (void)state;
    if (geteuid() != 0) skip(); /* replacing_fails has checked it */
    folder_with_model("readonly");
    folder_with_model("open");
    assert_int_equal(chmod(test_folder(), 0755), 0);
    assert_int_equal(chmod(test_path("open"), 0777), 0);
    assert_int_equal(chmod(test_path("open/model"), 0444), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(9);
        if (qkv_write_file(&ctx, test_path("readonly/model"), "x", 1) != QKV_FILE) _exit(1);
        if (!strstr(ctx.message, "no permission; check the permissions of the file")) _exit(2);
        if (qkv_write_file(&ctx, test_path("readonly/other"), "x", 1) != QKV_FILE) _exit(3);
        if (!strstr(ctx.message, "no permission; check the permissions of the file")) _exit(4);
        if (qkv_write_file(&ctx, test_path("open/model"), "x", 1) != QKV_FILE) _exit(5);
        if (qkv_write_file(&ctx, test_path("open/other"), "x", 1)) _exit(6);
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_file(test_path("readonly/model"), "old");
    assert_file(test_path("open/model"), "old");
    assert_int_equal(entries_in(test_path("readonly")), 1);
}

static void devices(void **state) {
    (void)state;
    char text[4096] = {0};
    assert_ok(&ctx, qkv_write_file(&ctx, "/dev/null", "x", 1));
    struct stat info;
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    if (access("/dev/full", W_OK) == 0) {
        assert_status(&ctx, qkv_write_file(&ctx, "/dev/full", text, 10), QKV_FILE); /* found at commit */
        assert_message(&ctx, "cannot write /dev/full: No space left on device; free some space");
        struct qkv_replace r;
        assert_ok(&ctx, qkv_replace_begin(&ctx, "/dev/full", &r));
        enum qkv_status status = QKV_OK;
        for (int i = 0; i < 100 && !status; i++) status = qkv_replace_write(&r, text, sizeof text);
        assert_status(&ctx, status, QKV_FILE);
        assert_message(&ctx, "No space left on device");
        assert_status(&ctx, qkv_replace_commit(&r), QKV_FILE); /* a caller that did not look */
        assert_message(&ctx, "cannot write /dev/full: a part of it was refused");
    }
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    snprintf(text, sizeof text, "/proc/self/fd/%d", ends[1]);
    assert_ok(&ctx, qkv_write_file(&ctx, text, "through", 7));
    assert_int_equal(read(ends[0], text, sizeof text), 7);
    close(ends[0]), close(ends[1]);
}

static void full_disk(void **state) {
    (void)state;
    const char *path = folder_with_model("full");
    static char block[4096];
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){100000, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int round = 0; round < 2; round++) { /* found by a write, and by the flush at commit */
        struct qkv_replace r;
        enum qkv_status status = qkv_replace_begin(&ctx, path, &r);
        for (int i = 0; i < (round ? 24 : 100) && !status; i++) status = qkv_replace_write(&r, block, sizeof block);
        if (round && !status) status = qkv_replace_write(&r, block, 2000);
        if (round) assert_int_equal(status, QKV_OK);
        if (!status) status = qkv_replace_commit(&r);
        qkv_replace_cancel(&r);
        assert_int_equal(status, QKV_FILE);
        assert_message(&ctx, "full/model: File too large; raise the limit");
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_file(path, "old");
    assert_int_equal(entries_in(test_path("full")), 1);
}

/* A child that writes and is killed before its commit. Returns when it is dead. */
static void killed_writer(const char *path) {
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct qkv_replace r;
        static char block[100000];
        if (qkv_replace_begin(&ctx, path, &r) || qkv_replace_write(&r, block, sizeof block)) _exit(1);
        fflush(r.file);
        if (write(ends[1], "!", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void kills(void **state) {
    (void)state;
    const char *path = folder_with_model("kills"), *folder = test_path("kills");
    test_write_file(test_path("kills/.model.mine.tmp"), "x", 1); /* names alike, but not temporaries of model */
    test_write_file(test_path("kills/.modelx.1.1.tmp"), "x", 1);
    test_write_file(test_path("kills/.model.1.1.tmpx"), "x", 1);
    for (int i = 0; i < 3; i++) {
        killed_writer(path);
        assert_file(path, "old");
        assert_int_equal(entries_in(folder), 5); /* one left behind, but never those of before */
    }
    struct qkv_replace living;
    assert_ok(&ctx, qkv_replace_begin(&ctx, path, &living));
    assert_int_equal(entries_in(folder), 5);
    assert_ok(&ctx, qkv_replace_write(&living, "slow", 4));
    assert_ok(&ctx, qkv_write_file(&ctx, path, "fast", 4)); /* must not sweep away one that is being written */
    assert_file(path, "fast");
    assert_ok(&ctx, qkv_replace_commit(&living));
    assert_file(path, "slow");
    assert_int_equal(entries_in(folder), 4);
}

/* A child that replaces a file without pause is killed at random moments: the file is whole each time. */
static void kills_at_random(void **state) {
    (void)state;
    struct qkv_random random = test_random(1);
    const char *path = folder_with_model("random");
    enum { SIZE = 300000 };
    static char block[SIZE];
    memset(block, 'a', SIZE);
    test_write_file(path, block, SIZE);
    for (int round = 0; round < 30; round++) {
        pid_t child = fork();
        if (child == 0) {
            for (char c = 'a';; c = c == 'z' ? 'a' : (char)(c + 1)) {
                memset(block, c, SIZE);
                if (qkv_write_file(&ctx, path, block, SIZE)) _exit(1);
            }
        }
        usleep((useconds_t)test_between(&random, 0, 20000));
        kill(child, SIGKILL);
        int result;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result));
        size_t n = 0;
        char *data = test_read_file(path, &n);
        assert_int_equal(n, SIZE);
        for (size_t i = 1; i < n; i++) assert_int_equal(data[i], data[0]);
        free(data);
    }
}

static void rivals(void **state) {
    (void)state;
    const char *path = folder_with_model("rivals");
    pid_t children[4];
    for (int c = 0; c < 4; c++) { /* each sweeps where the others open their temporaries */
        children[c] = fork();
        if (children[c] == 0) {
            char text[16];
            for (int i = 0; i < 100; i++) {
                snprintf(text, sizeof text, "%d", c);
                if (qkv_write_file(&ctx, path, text, 1)) _exit(1);
            }
            _exit(0);
        }
    }
    for (int c = 0; c < 4; c++) {
        int result;
        assert_int_equal(waitpid(children[c], &result, 0), children[c]);
        assert_int_equal(result, 0);
    }
    assert_int_equal(entries_in(test_path("rivals")), 1);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapping),         cmocka_unit_test(mapping_fails),
        cmocka_unit_test(folders),         cmocka_unit_test(paths),
        cmocka_unit_test(replacing),       cmocka_unit_test(long_and_bare_names),
        cmocka_unit_test(modes),           cmocka_unit_test(links),
        cmocka_unit_test(replacing_fails), cmocka_unit_test(read_only_for_others),
        cmocka_unit_test(devices),         cmocka_unit_test(full_disk),
        cmocka_unit_test(kills),           cmocka_unit_test(kills_at_random),
        cmocka_unit_test(rivals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
