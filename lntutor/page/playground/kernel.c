// The playground's arithmetic: numpy's random numbers, and a Transformer's products, norms and softmax.
//
// Built to kernel.wasm by `python tools/kernel.py`. Signals are (n, d) float32, row by row, with n a multiple of 4 (rows
// beyond the tokens are zero) and d a multiple of 16. A weight matrix is a table of pointers to tiles of 64 × 64 samples,
// as in lntutor/model/weight_bank.py; its standard deviation is a factor of each product.

#include <wasm_simd128.h>

#define EXPORT(name) __attribute__((export_name(#name)))
#define IMPORT(name) __attribute__((import_module("math"), import_name(#name)))
#define TILE 64
#define MOST_ROWS 64

typedef unsigned char u8;
typedef unsigned u32;
typedef unsigned long long u64;
typedef v128_t f4;

IMPORT(exp) double exp(double);
IMPORT(log) double log(double);
IMPORT(log1p) double log1p(double);
IMPORT(tanh) double tanh(double);

// Random numbers: Philox 4×64-10 keyed by blake2b of a name, then numpy's ziggurats ------------------------------------

static const u64 IV[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};
static const u8 SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static u64 turn(u64 x, int bits) { return x >> bits | x << (64 - bits); }

static void mix(u64 *v, int a, int b, int c, int d, u64 x, u64 y) {
    v[a] += v[b] + x, v[d] = turn(v[d] ^ v[a], 32);
    v[c] += v[d], v[b] = turn(v[b] ^ v[c], 24);
    v[a] += v[b] + y, v[d] = turn(v[d] ^ v[a], 16);
    v[c] += v[d], v[b] = turn(v[b] ^ v[c], 63);
}

// One block of blake2b (RFC 7693): `seen` bytes so far, this one included.
static void compress(u64 *h, const u8 *block, u64 seen, int last) {
    u64 m[16], v[16];
    for (int i = 0; i < 16; i++) {
        m[i] = 0;
        for (int b = 7; b >= 0; b--) m[i] = m[i] << 8 | block[8 * i + b];
    }
    for (int i = 0; i < 8; i++) v[i] = h[i], v[i + 8] = IV[i];
    v[12] ^= seen;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < 12; round++) {
        const u8 *s = SIGMA[round % 10];
        for (int i = 0; i < 4; i++) mix(v, i, 4 + i, 8 + i, 12 + i, m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++) h[i] ^= v[i] ^ v[i + 8];
}

static u64 counter[4], key[2], drawn[4];
static int left, halves;  // numbers left of `drawn`; 32-bit halves left
static u32 half;

// The stream of `random_stream(name)` (lntutor/model/random_streams.py); name is the repr of a tuple.
static void open_stream(const u8 *name, u32 length) {
    u64 h[8];
    for (int i = 0; i < 8; i++) h[i] = IV[i];
    h[0] ^= 0x01010000 ^ 16;  // a digest of 16 bytes
    u8 block[128];
    u32 at = 0;
    do {
        u32 rest = length - at < 128 ? length - at : 128;
        for (u32 i = 0; i < 128; i++) block[i] = i < rest ? name[at + i] : 0;
        at += rest;
        compress(h, block, at, at == length);
    } while (at < length);
    key[0] = h[0], key[1] = h[1];
    counter[0] = counter[1] = counter[2] = counter[3] = 0;
    left = halves = 0;
}

static u64 high(u64 a, u64 b) {
    u64 al = (u32)a, ah = a >> 32, bl = (u32)b, bh = b >> 32, lh = al * bh, hl = ah * bl;
    u64 middle = (al * bl >> 32) + (u32)lh + (u32)hl;
    __asm__ volatile("" : "+r"(middle));  // else clang asks for a 128-bit product that is not linked
    return ah * bh + (lh >> 32) + (hl >> 32) + (middle >> 32);
}

static void philox(void) {
    const u64 A = 0xD2E7470EE14C6C93, B = 0xCA5A826395121157;
    for (int i = 0; i < 4 && ++counter[i] == 0; i++);
    u64 a = counter[0], b = counter[1], c = counter[2], d = counter[3], k = key[0], l = key[1];
    for (int round = 0; round < 10; round++) {
        u64 p = high(A, a), q = A * a, r = high(B, c), s = B * c;
        a = r ^ b ^ k, b = s, c = p ^ d ^ l, d = q;
        k += 0x9E3779B97F4A7C15, l += 0xBB67AE8584CAA73B;
    }
    drawn[0] = a, drawn[1] = b, drawn[2] = c, drawn[3] = d;
    left = 4;
}

static u64 next64(void) {
    if (!left) philox();
    return drawn[4 - left--];
}

static u32 next32(void) {
    if (halves) return halves = 0, half;
    u64 both = next64();
    half = both >> 32, halves = 1;
    return (u32)both;
}

static float next_float(void) { return (next32() >> 8) * (1.0f / 16777216.0f); }

static double next_double(void) { return (next64() >> 11) * (1.0 / 9007199254740992.0); }

// Numpy's tables, computed: layers of equal area under exp(−x²/2), in units of 2²³ and 2⁵².
#define LAST 3.6541528853610087963519472518
#define AREA 0.004928673233974658
static u32 kf[256];
static u64 kd[256];
static float wf[256], ff[256];
static double wd[256], fd[256];

EXPORT(init) void init(void) {
    const double single = 8388608.0, twice = 4503599627370496.0;
    double x[256], bottom = AREA / exp(-0.5 * LAST * LAST);
    x[255] = LAST;
    for (int i = 254; i > 0; i--) x[i] = __builtin_sqrt(-2 * log(AREA / x[i + 1] + exp(-0.5 * x[i + 1] * x[i + 1])));
    x[0] = 0;
    for (int i = 0; i < 256; i++) {
        double width = i ? x[i] : bottom, share = i ? x[i - 1] / x[i] : LAST / bottom;
        kf[i] = share * single + 0.5, kd[i] = share * twice;
        wf[i] = width / single, wd[i] = width / twice;
        ff[i] = fd[i] = exp(-0.5 * x[i] * x[i]);
    }
}

static float normal(void) {
    for (;;) {
        u32 r = next32(), i = r & 255, size = r >> 9 & 0x7fffff;
        float x = size * wf[i];
        if (r >> 8 & 1) x = -x;
        if (size < kf[i]) return x;
        if (i) {
            if ((ff[i - 1] - ff[i]) * next_float() + ff[i] < exp(-0.5 * x * x)) return x;
            continue;
        }
        for (;;) {
            float a = -(float)(1 / LAST) * (float)log1p(-next_float()), b = -(float)log1p(-next_float());
            if (b + b > a * a) return size >> 8 & 1 ? -((float)LAST + a) : (float)LAST + a;
        }
    }
}

static double normal_double(void) {
    for (;;) {
        u64 r = next64(), size = r >> 9 & 0xfffffffffffff;
        u32 i = r & 255;
        double x = size * wd[i];
        if (r >> 8 & 1) x = -x;
        if (size < kd[i]) return x;
        if (i) {
            if ((fd[i - 1] - fd[i]) * next_double() + fd[i] < exp(-0.5 * x * x)) return x;
            continue;
        }
        for (;;) {
            double a = -(1 / LAST) * log1p(-next_double()), b = -log1p(-next_double());
            if (b + b > a * a) return size >> 8 & 1 ? -(LAST + a) : LAST + a;
        }
    }
}

EXPORT(normals) void normals(const u8 *name, u32 length, float *out, u32 count) {
    open_stream(name, length);
    for (u32 i = 0; i < count; i++) out[i] = normal();
}

EXPORT(normal_doubles) void normal_doubles(const u8 *name, u32 length, double *out, u32 count) {
    open_stream(name, length);
    for (u32 i = 0; i < count; i++) out[i] = normal_double();
}

// numpy's Generator.permutation(count)
EXPORT(permutation) void permutation(const u8 *name, u32 length, u32 *out, u32 count) {
    open_stream(name, length);
    for (u32 i = 0; i < count; i++) out[i] = i;
    for (u32 i = count - 1; i > 0; i--) {
        u32 mask = 0xffffffff >> __builtin_clz(i), j;
        while ((j = next32() & mask) > i);
        u32 other = out[j];
        out[j] = out[i], out[i] = other;
    }
}

// Products -------------------------------------------------------------------------------------------------------------

static f4 load(const float *p) { return wasm_v128_load(p); }
static f4 every(const float *p) { return wasm_v128_load32_splat(p); }
static f4 plus_product(f4 sum, f4 a, f4 b) { return wasm_f32x4_add(sum, wasm_f32x4_mul(a, b)); }
static float total(f4 a) {
    return wasm_f32x4_extract_lane(a, 0) + wasm_f32x4_extract_lane(a, 1) + wasm_f32x4_extract_lane(a, 2) +
           wasm_f32x4_extract_lane(a, 3);
}

// y (+)= factor · sum, four numbers at a time
static void put(float *y, f4 sum, f4 factor, int add) {
    f4 product = wasm_f32x4_mul(sum, factor);
    wasm_v128_store(y, add ? wasm_f32x4_add(load(y), product) : product);
}

// Y (n, q) = factor · X (n, p) W
EXPORT(product) void product(float *Y, const float *X, float *const *W, int n, int p, int q, float factor) {
    int across = (q + TILE - 1) / TILE;
    f4 scale = wasm_f32x4_splat(factor);
    for (int j = 0; j < q; j += 8)
        for (int i = 0; i < n; i += 4) {
            f4 sum[4][2];
            for (int r = 0; r < 4; r++) sum[r][0] = sum[r][1] = wasm_f32x4_splat(0);
            for (int k0 = 0; k0 < p; k0 += TILE) {
                const float *w = W[k0 / TILE * across + j / TILE] + j % TILE, *x = X + i * p + k0;
                int rows = p - k0 < TILE ? p - k0 : TILE;
                for (int k = 0; k < rows; k++, w += TILE, x++) {
                    f4 a = load(w), b = load(w + 4);
                    for (int r = 0; r < 4; r++) {
                        f4 s = every(x + r * p);
                        sum[r][0] = plus_product(sum[r][0], s, a), sum[r][1] = plus_product(sum[r][1], s, b);
                    }
                }
            }
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 2; c++) put(Y + (i + r) * q + j + 4 * c, sum[r][c], scale, 0);
        }
}

// Four sums of products at once, as the four lanes
static f4 totals(const f4 *s) {
    f4 a = wasm_i32x4_shuffle(s[0], s[1], 0, 4, 1, 5), b = wasm_i32x4_shuffle(s[0], s[1], 2, 6, 3, 7);
    f4 c = wasm_i32x4_shuffle(s[2], s[3], 0, 4, 1, 5), d = wasm_i32x4_shuffle(s[2], s[3], 2, 6, 3, 7);
    f4 ab = wasm_f32x4_add(a, b), cd = wasm_f32x4_add(c, d);  // (s0, s1, s0, s1), (s2, s3, s2, s3)
    return wasm_f32x4_add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7));
}

// X (n, p) (+)= factor · Y (n, q) Wᵀ
EXPORT(product_back) void product_back(
    float *X, const float *Y, float *const *W, int n, int p, int q, float factor, int add
) {
    int across = (q + TILE - 1) / TILE;
    f4 scale = wasm_f32x4_splat(factor);
    for (int j = 0; j < p; j += 4)
        for (int i = 0; i < n; i += 2) {
            f4 sum[2][4];
            for (int r = 0; r < 2; r++)
                for (int c = 0; c < 4; c++) sum[r][c] = wasm_f32x4_splat(0);
            for (int k0 = 0; k0 < q; k0 += TILE) {
                const float *w = W[j / TILE * across + k0 / TILE] + j % TILE * TILE, *y = Y + i * q + k0;
                int columns = q - k0 < TILE ? q - k0 : TILE;
                for (int k = 0; k < columns; k += 4) {
                    f4 a = load(y + k), b = load(y + q + k);
                    for (int c = 0; c < 4; c++) {
                        f4 v = load(w + c * TILE + k);
                        sum[0][c] = plus_product(sum[0][c], a, v), sum[1][c] = plus_product(sum[1][c], b, v);
                    }
                }
            }
            for (int r = 0; r < 2; r++) put(X + (i + r) * p + j, totals(sum[r]), scale, add);
        }
}

// S (n, n) = X Xᵀ, the 4 × 4 blocks on and above the diagonal
EXPORT(gram) void gram(float *S, const float *X, int n, int d) {
    for (int i = 0; i < n; i += 4)
        for (int j = i; j < n; j += 4) {
            f4 sum[4][4];
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++) sum[r][c] = wasm_f32x4_splat(0);
            for (int k = 0; k < d; k += 4)
                for (int r = 0; r < 4; r++) {
                    f4 x = load(X + (i + r) * d + k);
                    for (int c = 0; c < 4; c++) sum[r][c] = plus_product(sum[r][c], x, load(X + (j + c) * d + k));
                }
            for (int r = 0; r < 4; r++) wasm_v128_store(S + (i + r) * n + j, totals(sum[r]));
        }
}

// Σ A∘B over two such matrices
EXPORT(gram_dot) double gram_dot(const float *A, const float *B, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = i / 4 * 4; j < n; j++) sum += (j / 4 > i / 4 ? 2 : 1) * (double)A[i * n + j] * B[i * n + j];
    return sum;
}

EXPORT(trace) double trace(const float *A, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += A[i * n + i];
    return sum;
}

// ‖Xᵀ G‖² by the product itself; X (n, p), G (n, q)
EXPORT(product_norm) double product_norm(const float *X, const float *G, int n, int p, int q) {
    double squares = 0;
    for (int i = 0; i < p; i++)
        for (int j = 0; j < q; j += 4) {
            f4 sum = wasm_f32x4_splat(0);
            for (int k = 0; k < n; k++) sum = plus_product(sum, every(X + k * p + i), load(G + k * q + j));
            f4 square = wasm_f32x4_mul(sum, sum);
            squares += total(square);
        }
    return squares;
}

EXPORT(square_sum) double square_sum(const float *X, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += (double)X[i] * X[i];
    return sum;
}

// X (n, d) = factor × the corner of a matrix of tiles; rows from `tokens` on are zero
EXPORT(unpack) void unpack(float *X, float *const *W, int n, int tokens, int d, float factor) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < d; j++) X[i * d + j] = i < tokens ? factor * W[j / TILE][i * TILE + j % TILE] : 0;
}

// Steps between products -----------------------------------------------------------------------------------------------

// Y (+)= factor · X
EXPORT(scale) void scale(float *Y, const float *X, float factor, int count, int add) {
    f4 s = wasm_f32x4_splat(factor);
    for (int i = 0; i < count; i += 4) put(Y + i, load(X + i), s, add);
}

EXPORT(sum) void sum(float *Y, const float *A, const float *B, int count) {
    for (int i = 0; i < count; i += 4) wasm_v128_store(Y + i, wasm_f32x4_add(load(A + i), load(B + i)));
}

// LayerNorm (centred) or RMSNorm of `rows` rows of d numbers; `size` receives 1/√(variance + ε)
EXPORT(norm) void norm(float *Y, const float *X, float *size, int rows, int d, int centred) {
    for (int i = 0; i < rows; i++, X += d, Y += d) {
        double mean = 0, square = 0;
        if (centred)
            for (int j = 0; j < d; j++) mean += X[j];
        mean /= d;
        for (int j = 0; j < d; j++) square += (X[j] - mean) * (X[j] - mean);
        float m = mean, r = 1 / __builtin_sqrt(square / d + 1e-5);
        for (int j = 0; j < d; j++) Y[j] = (X[j] - m) * r;
        size[i] = r;
    }
}

// G at Y → X (+)= r (g − mean g − y mean(g∘y)); RMSNorm has no mean g
EXPORT(norm_back) void norm_back(
    float *X, const float *Y, const float *G, const float *size, int rows, int d, int centred, int add
) {
    for (int i = 0; i < rows; i++, X += d, Y += d, G += d) {
        double mean = 0, along = 0;
        for (int j = 0; j < d; j++) mean += G[j], along += (double)G[j] * Y[j];
        float m = centred ? mean / d : 0, a = along / d, r = size[i];
        for (int j = 0; j < d; j++) X[j] = (add ? X[j] : 0) + r * (G[j] - m - Y[j] * a);
    }
}

EXPORT(relu) void relu(float *Y, int count) {
    for (int i = 0; i < count; i += 4) wasm_v128_store(Y + i, wasm_f32x4_pmax(load(Y + i), wasm_f32x4_splat(0)));
}

EXPORT(relu_back) void relu_back(float *G, const float *Y, int count) {
    f4 zero = wasm_f32x4_splat(0);
    for (int i = 0; i < count; i += 4) wasm_v128_store(G + i, wasm_v128_and(load(G + i), wasm_f32x4_gt(load(Y + i), zero)));
}

EXPORT(squash) void squash(float *Y, const float *X, int count) {
    for (int i = 0; i < count; i++) Y[i] = tanh(X[i]);
}

EXPORT(squash_back) void squash_back(float *X, const float *Y, const float *G, int count, int add) {
    for (int i = 0; i < count; i++) X[i] = (add ? X[i] : 0) + G[i] * (1 - Y[i] * Y[i]);
}

// Attention; heads are blocks of h columns, n queries, m keys ----------------------------------------------------------

static float dot(const float *a, const float *b, int d) {
    f4 sum = wasm_f32x4_splat(0);
    int j = 0;
    for (; j + 4 <= d; j += 4) sum = plus_product(sum, load(a + j), load(b + j));
    float rest = total(sum);
    for (; j < d; j++) rest += a[j] * b[j];
    return rest;
}

// y += factor · x
static void join(float *y, const float *x, float factor, int d) {
    f4 s = wasm_f32x4_splat(factor);
    int j = 0;
    for (; j + 4 <= d; j += 4) put(y + j, load(x + j), s, 1);
    for (; j < d; j++) y[j] += factor * x[j];
}

static void clear(float *y, int count) {
    for (int i = 0; i < count; i++) y[i] = 0;
}

static void softmax(float *p, int count) {
    float most = p[0], sum = 0;
    for (int j = 1; j < count; j++) most = p[j] > most ? p[j] : most;
    for (int j = 0; j < count; j++) sum += p[j] = exp(p[j] - most);
    for (int j = 0; j < count; j++) p[j] /= sum;
}

// P (H, n, m) = softmax(q kᵀ · factor), Y (rows, d) = P v; Y is cleared whole
EXPORT(attend) void attend(
    float *Y, float *P, const float *Q, const float *K, const float *V, int n, int m, int rows, int d, int h,
    float factor, int causal
) {
    clear(Y, rows * d);
    for (int c = 0; c < d; c += h)
        for (int i = 0; i < n; i++, P += m) {
            int seen = causal ? i + 1 : m;
            for (int j = 0; j < m; j++) P[j] = j < seen ? factor * dot(Q + i * d + c, K + j * d + c, h) : 0;
            softmax(P, seen);
            for (int j = 0; j < seen; j++) join(Y + i * d + c, V + j * d + c, P[j], h);
        }
}

// The gradient G at Y, at q, k and v, which are added to.
EXPORT(attend_back) void attend_back(
    float *GQ, float *GK, float *GV, const float *G, const float *P, const float *Q, const float *K, const float *V,
    int n, int m, int d, int h, float factor
) {
    for (int c = 0; c < d; c += h)
        for (int i = 0; i < n; i++, P += m) {
            float slope[MOST_ROWS];
            double mean = 0;
            for (int j = 0; j < m; j++) {
                slope[j] = dot(G + i * d + c, V + j * d + c, h);
                mean += (double)P[j] * slope[j];
                join(GV + j * d + c, G + i * d + c, P[j], h);
            }
            if (m == 1) continue;  // the only key has weight 1, whatever its score
            for (int j = 0; j < m; j++) {
                float s = factor * P[j] * (slope[j] - (float)mean);
                join(GQ + i * d + c, K + j * d + c, s, h), join(GK + j * d + c, Q + i * d + c, s, h);
            }
        }
}

// Y (n, d) (+)= P X or, transposed, Pᵀ X, with P (n, m) or (m, n) row by row
EXPORT(blend) void blend(float *Y, const float *P, const float *X, int n, int m, int d, int transposed, int add) {
    if (!add) clear(Y, n * d);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            float p = transposed ? P[j * n + i] : P[i * m + j];
            if (p != 0) join(Y + i * d, X + j * d, p, d);
        }
}

// Logits (n, words) → (softmax − 1 at the label)/tokens; rows from `tokens` on become zero
EXPORT(loss_slope) void loss_slope(float *logits, const u32 *labels, int n, int tokens, int words) {
    for (int i = 0; i < n; i++, logits += words) {
        if (i >= tokens) {
            clear(logits, words);
            continue;
        }
        softmax(logits, words);
        logits[labels[i]] -= 1;
        for (int j = 0; j < words; j++) logits[j] /= tokens;
    }
}
