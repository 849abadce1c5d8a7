/* A reader of Bloom filter files around the kernel alone: for machines where nothing but C runs, an emulated one for instance.

       golden_reader FILE < KEYS      prints 0 or 1 for each line of KEYS

   Checks what FORMAT.md demands before an answer may be trusted: the header's checksum, the file's length, the known
   answer, the checksums of a sealed payload, the canaries. Exit codes: 0; 2 where the file is refused, over the field that
   is printed. other_machines.py compiles and runs it. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "layout.h"
#include "pipeline.h"

#define CHUNK_BYTES (UINT64_C(1) << 20)
#define MAX_INPUT (UINT64_C(1) << 30)

static void require(int holds, const char *field)
{
    if (!holds) {
        printf("refused: %s\n", field);
        exit(2);
    }
}

static uint64_t number(const uint8_t *bytes, unsigned size)
{
    uint64_t value = 0;

    for (unsigned i = size; i > 0; i--) {
        value = value << 8 | bytes[i - 1];
    }
    return value;
}

static uint8_t *read_all(FILE *file, size_t *num_bytes)
{
    size_t room = 1U << 16;
    uint8_t *bytes = malloc(room);

    *num_bytes = 0;
    require(file != NULL && bytes != NULL, "open");
    for (;;) {
        const size_t some = fread(bytes + *num_bytes, 1, room - *num_bytes, file);
        *num_bytes += some;
        if (some == 0) {
            return bytes;
        }
        if (*num_bytes == room) {
            require(room < MAX_INPUT, "length");
            room *= 2;
            bytes = realloc(bytes, room);
            require(bytes != NULL, "memory");
        }
    }
}

static int slot_is_sound(const uint8_t *slot)
{
    return mmb_checksum64(slot, 504) == number(slot + 504, 8);
}

/* The slot with the higher sequence of those that are sound. */
static const uint8_t *choose_slot(const uint8_t *page)
{
    const uint8_t *const a = page + 512;
    const uint8_t *const b = page + 1024;

    require(slot_is_sound(a) && slot_is_sound(b), "slot_checksum");
    return number(b, 8) > number(a, 8) ? b : a;
}

/* What a look-up in the file needs: the table of its layout, the shape of its payload, and how its keys are hashed. */
typedef struct {
    const mmb_layout *layout;
    mmb_shape shape;
    mmb_keying keying;
} filter;

static filter check_header(const uint8_t *page, size_t num_bytes)
{
    filter found;
    uint8_t checked[512 + 2552];
    const uint8_t *const known = (const uint8_t *)"mmbloom known answer 1";
    mmb_hash answer;

    require(num_bytes >= 4096 && memcmp(page, "\x89MMB\r\n\x1a\n", 8) == 0, "magic");
    memcpy(checked, page, 512);
    memcpy(checked + 512, page + 1536, 2552);
    require(mmb_checksum64(checked, sizeof checked) == number(page + 4088, 8), "header_checksum");
    require(number(page + 8, 2) == 1 && number(page + 16, 8) == 0, "format_version");
    require(number(page + 32, 4) == 1, "kind");
    found.layout = mmb_layout_of((uint32_t)number(page + 36, 2), (uint32_t)number(page + 38, 2));
    require(found.layout != NULL && found.layout->add != NULL && found.layout->remove_many == NULL, "layout");
    found.shape.bloom.num_probes = (uint32_t)number(page + 44, 4);
    found.shape.bloom.num_bits = number(page + 56, 8);
    found.keying.form = (mmb_key_form)number(page + 42, 2);
    found.keying.seed = number(page + 48, 8);
    require(number(page + 128, 8) == num_bytes, "file_bytes");
    require(number(page + 96, 8) <= num_bytes - 4096, "payload_bytes");
    require(found.layout->payload_bytes(&found.shape) <= number(page + 96, 8), "num_bits");
    answer = mmb_hash_bytes(known, 22, found.keying.seed);
    require(answer.hi == number(page + 160, 8) && answer.lo == number(page + 168, 8), "known_answer");
    return found;
}

static void check_payload(const uint8_t *file, const uint8_t *slot, const filter *opened)
{
    const size_t payload_bytes = (size_t)number(file + 96, 8);
    const uint8_t *const payload = file + 4096;
    const uint8_t *const table = payload + payload_bytes;
    const size_t num_checksums = (size_t)number(file + 120, 8);

    if (number(slot + 8, 4) == 2) {
        require(mmb_checksum64(table, 8 * num_checksums) == number(slot + 40, 8), "checksum_root");
        for (size_t i = 0; i < num_checksums; i++) {
            const size_t start = (size_t)CHUNK_BYTES * i;
            const size_t rest = payload_bytes - start;
            const size_t some = rest < CHUNK_BYTES ? rest : (size_t)CHUNK_BYTES;
            require(mmb_checksum64(payload + start, some) == number(table + 8 * i, 8), "payload");
        }
    }
    for (size_t i = 0; i < number(slot + 72, 4); i++) {
        const mmb_hash canary = {number(slot + 80 + 16 * i, 8), number(slot + 88 + 16 * i, 8)};
        require(opened->layout->contains(&opened->shape, payload, canary), "canaries");
    }
}

int main(int argc, char **argv)
{
    size_t file_bytes;
    size_t key_bytes;
    size_t count;
    require(argc == 2, "usage: golden_reader FILE < KEYS");
    uint8_t *const file = read_all(fopen(argv[1], "rb"), &file_bytes);
    uint8_t *const keys = read_all(stdin, &key_bytes);
    uint8_t *const maybe = calloc(key_bytes + 1, 1);
    mmb_source source = {.layout = MMB_LINES, .data = keys, .data_bytes = key_bytes};

    require(maybe != NULL, "memory");
    const filter opened = check_header(file, file_bytes);
    check_payload(file, choose_slot(file), &opened);
    require(mmb_contains_source(opened.layout, &opened.shape, file + 4096, &opened.keying, &source, maybe, key_bytes + 1,
                                &count) == MMB_OK,
            "key");
    for (size_t i = 0; i < count; i++) {
        puts(maybe[i] ? "1" : "0");
    }
    free(maybe);
    free(keys);
    free(file);
    return 0;
}
