/* Runs the tests whose names are given, or lists all names. Built with the address and undefined-behaviour sanitizers by
   test_kernel.py, which asks for one test at a time. */
#include "check.h"

int main(int argc, char **argv)
{
    const test *const files[] = {KEY_TESTS, FILTER_TESTS, PARTITION_TESTS, BIT_TESTS, COUNTING_TESTS, FUSE_TESTS};
    int num_run = 0;

    for (size_t i = 0; i < LENGTH(files); i++) {
        for (const test *one = files[i]; one->name != NULL; one++) {
            if (argc == 1) {
                puts(one->name);
            }
            for (int j = 1; j < argc; j++) {
                if (strcmp(argv[j], one->name) == 0) {
                    one->run();
                    num_run++;
                }
            }
        }
    }
    if (num_run != argc - 1) {
        fprintf(stderr, "%d of %d tests exist\n", num_run, argc - 1);
        return 2;
    }
    return 0;
}
