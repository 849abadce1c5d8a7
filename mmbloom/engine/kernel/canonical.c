/* Canonical bytes: UTF-8 for text, decoded bytes for hexadecimal digests. FORMAT.md, "Keys", is normative. */
#include "canonical.h"

#include <stdlib.h>
#include <string.h>

#if MMB_HAVE_AVX2
#include <immintrin.h>
#endif

void mmb_scratch_init(mmb_scratch *scratch)
{
    scratch->heap = NULL;
    scratch->heap_size = 0;
}

void mmb_scratch_free(mmb_scratch *scratch)
{
    free(scratch->heap);
    mmb_scratch_init(scratch);
}

/* At least `size` bytes, or NULL. Earlier contents are lost. */
static uint8_t *scratch_room(mmb_scratch *scratch, size_t size)
{
    if (size <= sizeof scratch->in_place) {
        return scratch->in_place;
    }
    if (size > scratch->heap_size) {
        free(scratch->heap);
        scratch->heap = malloc(size);
        scratch->heap_size = scratch->heap == NULL ? 0 : size;
    }
    return scratch->heap;
}

static uint32_t code_point(const mmb_view *view, size_t index)
{
    uint32_t wide;
    uint16_t narrow;

    switch (view->encoding) {
    case MMB_UCS4:
        memcpy(&wide, view->data + 4 * index, sizeof wide);
        return wide;
    case MMB_UCS2:
        memcpy(&narrow, view->data + 2 * index, sizeof narrow);
        return narrow;
    default:
        return view->data[index];
    }
}

/* Text to UTF-8 (RFC 3629) at `out`, which holds 4 bytes a code unit. */
static mmb_status encode_utf8(const mmb_view *view, uint8_t *out, size_t *length)
{
    uint8_t *next = out;

    for (size_t i = 0; i < view->length; i++) {
        const uint32_t c = code_point(view, i);
        if (c < 0x80) {
            *next++ = (uint8_t)c;
        } else if (c < 0x800) {
            *next++ = (uint8_t)(0xC0 | (c >> 6));
            *next++ = (uint8_t)(0x80 | (c & 0x3F));
        } else if ((c >= 0xD800 && c < 0xE000) || c > 0x10FFFF) {
            return MMB_SURROGATE;
        } else if (c < 0x10000) {
            *next++ = (uint8_t)(0xE0 | (c >> 12));
            *next++ = (uint8_t)(0x80 | ((c >> 6) & 0x3F));
            *next++ = (uint8_t)(0x80 | (c & 0x3F));
        } else {
            *next++ = (uint8_t)(0xF0 | ((c >> 18) & 0x07));
            *next++ = (uint8_t)(0x80 | ((c >> 12) & 0x3F));
            *next++ = (uint8_t)(0x80 | ((c >> 6) & 0x3F));
            *next++ = (uint8_t)(0x80 | (c & 0x3F));
        }
    }
    *length = (size_t)(next - out);
    return MMB_OK;
}

/* The value of a hexadecimal digit, or 0xFF. Without a table: '0'..'9' are 0x30..0x39, 'A'..'F' and 'a'..'f' differ in bit 5. */
static inline uint8_t hex_digit(uint8_t c)
{
    const uint8_t digit = (uint8_t)(c - '0');
    const uint8_t letter = (uint8_t)((c | 0x20) - 'a');

    if (digit < 10) {
        return digit;
    }
    return letter < 6 ? (uint8_t)(letter + 10) : 0xFF;
}

#if MMB_HAVE_AVX2
#define DIGITS_A_STEP 32U

/* The same for at least DIGITS_A_STEP digits, 32 at a time, to an `out` elsewhere: the last step goes over the end of the one
   before again. */
__attribute__((target("avx2"))) static mmb_status decode_hex_avx2(const uint8_t *text, size_t length, uint8_t *out)
{
    __m256i all = _mm256_set1_epi8(-1);

    for (size_t done = 0; done < length; done += DIGITS_A_STEP) {
        const size_t first = length - done < DIGITS_A_STEP ? length - DIGITS_A_STEP : done;
        const __m256i digits = _mm256_loadu_si256((const __m256i *)(const void *)(text + first));
        const __m256i number = _mm256_sub_epi8(digits, _mm256_set1_epi8('0'));
        const __m256i letter = _mm256_sub_epi8(_mm256_or_si256(digits, _mm256_set1_epi8(0x20)), _mm256_set1_epi8('a'));
        const __m256i is_number = _mm256_cmpeq_epi8(_mm256_min_epu8(number, _mm256_set1_epi8(9)), number);
        const __m256i is_letter = _mm256_cmpeq_epi8(_mm256_min_epu8(letter, _mm256_set1_epi8(5)), letter);
        const __m256i values = _mm256_blendv_epi8(_mm256_add_epi8(letter, _mm256_set1_epi8(10)), number, is_number);
        /* Pairs of digits to 16 * first + second in 16 bits, then to bytes; the lower half of each lane has eight. */
        const __m256i pairs = _mm256_maddubs_epi16(values, _mm256_set1_epi16(0x0110));
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(pairs, pairs), 0x08);
        _mm_storeu_si128((__m128i *)(void *)(out + first / 2), _mm256_castsi256_si128(bytes));
        all = _mm256_and_si256(all, _mm256_or_si256(is_number, is_letter));
    }
    return _mm256_movemask_epi8(all) == -1 ? MMB_OK : MMB_HEX_DIGIT;
}
#endif

mmb_status mmb_decode_hex(const uint8_t *text, size_t length, uint8_t *out)
{
    uint8_t bad = 0;

    if (length % 2 != 0) {
        return MMB_HEX_ODD;
    }
#if MMB_HAVE_AVX2
    if (length >= DIGITS_A_STEP && out != text && __builtin_cpu_supports("avx2")) {
        return decode_hex_avx2(text, length, out);
    }
#endif
    for (size_t i = 0; i < length / 2; i++) {
        const uint8_t high = hex_digit(text[2 * i]);
        const uint8_t low = hex_digit(text[2 * i + 1]);
        bad |= (high | low) & 0xF0;
        out[i] = (uint8_t)((high << 4) | (low & 0x0F));
    }
    return bad == 0 ? MMB_OK : MMB_HEX_DIGIT;
}

mmb_status mmb_canonical(const mmb_view *view, mmb_key_form form, mmb_scratch *scratch, const uint8_t **bytes,
                         size_t *length)
{
    const uint8_t *text = view->data;
    size_t text_length = (size_t)view->length;
    uint8_t *room = NULL;

    if (view->encoding != MMB_BYTES) {
        if (view->length > SIZE_MAX / 4) {
            return MMB_NO_MEMORY;
        }
        room = scratch_room(scratch, 4 * (size_t)view->length);
        if (room == NULL) {
            return MMB_NO_MEMORY;
        }
        const mmb_status status = encode_utf8(view, room, &text_length);
        if (status != MMB_OK) {
            return status;
        }
        text = room;
    }
    if (form == MMB_HEX) {
        if (room == NULL) {
            room = scratch_room(scratch, text_length / 2);
            if (room == NULL) {
                return MMB_NO_MEMORY;
            }
        }
        const mmb_status status = mmb_decode_hex(text, text_length, room);
        if (status != MMB_OK) {
            return status;
        }
        text = room;
        text_length /= 2;
    }
    *bytes = text;
    *length = text_length;
    return MMB_OK;
}
