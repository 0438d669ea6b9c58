#include "server/http/request_id.h"

#include "engine/base/clock.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>

bool convoy_request_id_keep(const char *value, size_t length, char id[CONVOY_REQUEST_ID_BYTES])
{
    if (value == NULL || length == 0 || length >= CONVOY_REQUEST_ID_BYTES)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = value[i];
        bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                    c == '_' || c == '-';
        if (!safe)
            return false;
    }
    memcpy(id, value, length);
    id[length] = '\0';
    return true;
}

/* The output function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators). */
static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void convoy_request_id_make(char id[CONVOY_REQUEST_ID_BYTES])
{
    /* Each thread counts from a random place of its own. */
    static _Thread_local uint64_t state[2];
    static _Thread_local bool seeded;
    static const char digits[] = "0123456789abcdef";

    if (!seeded) {
        if (getrandom(state, sizeof state, 0) != (ssize_t)sizeof state) {
            /* Before the kernel has entropy: the time and the thread's own address keep ids apart. */
            state[0] = convoy_now_us();
            state[1] = (uint64_t)(uintptr_t)&state ^ state[0] << 32;
        }
        seeded = true;
    }
    state[0] += 0x9e3779b97f4a7c15u;
    state[1] += 0xd1342543de82ef95u;
    for (int word = 0; word < 2; word++) {
        uint64_t bits = mixed(state[word]);
        for (int i = 0; i < 16; i++) {
            id[word * 16 + i] = digits[bits & 15];
            bits >>= 4;
        }
    }
    id[32] = '\0';
}
