enum ork_step_kind {
    ORK_NORM = 0,
    ORK_QUANTIZE = 1,
    ORK_MATMUL = 2,
    ORK_DEQUANTIZE = 3,
    ORK_ADD = 4,
    ORK_ROPE = 5,
    ORK_APPEND = 6,
    ORK_ATTENTION = 7,
    ORK_GATED = 8,
    ORK_CAP = 9,
    ORK_ROUTE = 10,
    ORK_GROUP = 11,
    ORK_GATHER = 12,
    ORK_EXPERTS = 13,
    ORK_COMBINE = 14,
    ORK_NIBBLE_EXPERTS = 15,
    ORK_CONVOLVE = 16,
    ORK_SCAN_PRODUCTS = 17,
    ORK_SCAN = 18,
    ORK_SCAN_OPERANDS = 19,
    ORK_SCAN_INSIDE = 20,
    ORK_SCAN_CARRY = 21,
    ORK_SCAN_FINISH = 22,
    ORK_STEP_KINDS = 23
};

enum ork_gate_function { ORK_SILU = 0, ORK_GELU_TANH = 1 };

/* RMS norm of every run of `width` values; a row holds `groups` such runs. codes may be NULL.
 * weight_stride: from a run's weights to the next run's, 0 where all runs share them.
 * rotation (here and below): block of the Hadamard transform before quantization, 0 for none. */
typedef struct {
    const float *input;
    const float *weight;
    float *output;
    int8_t *codes;
    float *code_scales;
    int32_t width;
    int32_t groups;
    int32_t code_stride;
    int32_t rotation;
    int32_t accumulate;
    int32_t weight_stride;
    float epsilon;
} ork_norm_step;

/* Runs of `width` floats, `groups` in a row, to int8 codes with a scale for each run; codes are zero from
 * width to the next multiple of 32. */
typedef struct {
    const float *input;
    int8_t *codes;
    float *code_scales;
    int32_t width;
    int32_t groups;
    int32_t code_stride;
    int32_t rotation;
} ork_quantize_step;

/* output[row][n] (+)= sum * (code_scale * weight_scale) + bias; k is a multiple of 32. */
typedef struct {
    const int8_t *codes;
    const float *code_scales;
    const int8_t *tiles;
    const float *weight_scales;
    const float *bias;
    float *output;
    int32_t k;
    int32_t n;
    int32_t code_stride;
    int32_t output_stride;
    int32_t accumulate;
} ork_matmul_step;

/* The same for sums somebody else computed. */
typedef struct {
    const int32_t *sums;
    const float *code_scales;
    const float *weight_scales;
    const float *bias;
    float *output;
    int32_t n;
    int32_t sum_stride;
    int32_t output_stride;
    int32_t accumulate;
} ork_dequantize_step;

/* output[row] (+)= input[row] + bias */
typedef struct {
    const float *input;
    const float *bias;
    float *output;
    int32_t width;
    int32_t accumulate;
} ork_add_step;

/* Rotates the first `dims` of every head in place; tables are [context][dims / 2]. */
typedef struct {
    float *values;
    const float *cosines;
    const float *sines;
    int32_t heads;
    int32_t head_dim;
    int32_t dims;
    int32_t halves;
} ork_rope_step;

/* How a cache holds its numbers: int8 with one scale for each key (rotated) and each value of a head. */
enum ork_cache_type { ORK_CACHE_F32 = 0, ORK_CACHE_F16 = 1, ORK_CACHE_INT8 = 2 };

/* Keys go to [kv_heads][capacity / 32][head_dim][32], values to [kv_heads][capacity][head_dim], scales
 * (int8 only) to [kv_heads][capacity]. */
typedef struct {
    const float *keys;
    const float *values;
    void *key_cache;
    void *value_cache;
    float *key_scales;
    float *value_scales;
    int32_t kv_heads;
    int32_t head_dim;
    int32_t capacity;
    int32_t type;
} ork_append_step;

/* Causal attention of every row over the cache; window 0 sees everything before it, cap 0 leaves scores alone. */
typedef struct {
    const float *queries;
    float *output;
    const void *key_cache;
    const void *value_cache;
    const float *key_scales;
    const float *value_scales;
    int32_t heads;
    int32_t kv_heads;
    int32_t head_dim;
    int32_t capacity;
    int32_t type;
    int32_t window;
    float scale;
    float cap;
} ork_attention_step;

/* output[row] = function(gate[row]) * up[row]; codes may be NULL. */
typedef struct {
    const float *gate;
    const float *up;
    float *output;
    int8_t *codes;
    float *code_scales;
    int32_t width;
    int32_t code_stride;
    int32_t rotation;
    int32_t function;
} ork_gated_step;

/* values = limit * tanh(values / limit), in place. */
typedef struct {
    float *values;
    int32_t width;
    float limit;
} ork_cap_step;

/* The `used` experts each row goes to, best first, and their shares: softmax over all, made to sum to one.
 * Of equal ones the first. router [experts][width], chosen and shares [row][used]. */
typedef struct {
    const float *input;
    const float *router;
    int32_t *chosen;
    float *shares;
    int32_t width;
    int32_t experts;
    int32_t used;
} ork_route_step;

/* Slots: all (row, choice) pairs sorted by expert. slots [row][used]; offsets [experts + 1]. */
typedef struct {
    const int32_t *chosen;
    int32_t *slots;
    int32_t *offsets;
    int32_t experts;
    int32_t used;
} ork_group_step;

/* Codes of each row to its slots; both have code_stride. */
typedef struct {
    const int8_t *codes;
    const float *code_scales;
    const int32_t *slots;
    int8_t *grouped;
    float *grouped_scales;
    int32_t code_stride;
    int32_t used;
} ork_gather_step;

/* output[slot][n] = codes[slot] by the weight of the slot's expert; k is a multiple of 32. */
typedef struct {
    const int8_t *codes;
    const float *code_scales;
    const void *const *tiles;
    const void *const *weight_scales;
    const int32_t *offsets;
    float *output;
    int32_t experts;
    int32_t k;
    int32_t n;
    int32_t code_stride;
} ork_experts_step;

/* The same from 4-bit weights: nibbles [n][k / 2] of each expert, the even k in the low one; what they are
 * worth is in levels [16], times multipliers [n][k / group] / 128 where there are any. Groups of whole 32. */
typedef struct {
    const int8_t *codes;
    const float *code_scales;
    const void *const *nibbles;
    const void *const *multipliers;
    const void *const *weight_scales;
    const int8_t *levels;
    const int32_t *offsets;
    float *output;
    int32_t experts;
    int32_t k;
    int32_t n;
    int32_t group;
    int32_t code_stride;
} ork_nibble_experts_step;

/* output[row] += sum over its choices of share * input[slot] */
typedef struct {
    const float *input;
    const int32_t *slots;
    const float *shares;
    float *output;
    int32_t width;
    int32_t used;
} ork_combine_step;

/* Causal convolution of every channel with SiLU: weights [taps][width], oldest tap first, state [taps - 1][width]
 * the inputs before row 0, read as zeros at position 0. Up to 8 taps. */
typedef struct {
    const float *input;
    const float *weights;
    const float *bias;
    float *state;
    float *output;
    int32_t width;
    int32_t taps;
    int32_t input_stride;
} ork_convolve_step;

/* Operands and results of a scan's wide products where something else computes them from halves, a table entry for
 * [chunk of the run][group], W = heads * head_dim / groups. Everything is scaled by powers of two into the range of
 * halves; the factors here undo that, and are NaN where a value was not finite.
 *
 * What the state gives to the rows of a chunk: read_rows [chunk][state_size] are C, read_tiles the state as
 * weight tiles [W / 16][state_size / 32][16][32], read [chunk][W]. What the rows of a full chunk
 * add to the state: add_rows [state_size][chunk] are B, add_tiles their decayed dt x [W / 16][chunk / 32][16][32], add
 * [state_size][W].
 *
 * row_scales [row][groups] for C, chunk_scales [chunk of the run][groups] for B, input_scales and state_scales
 * [chunk of the run][heads]; before [row][heads] and spans [chunk of the run][heads] are decays since a chunk's
 * beginning, to a row and to its end. */
typedef struct {
    uint16_t *const *read_rows;
    uint16_t *const *read_tiles;
    const float *const *read;
    uint16_t *const *add_rows;
    uint16_t *const *add_tiles;
    const float *const *add;
    float *row_scales;
    float *chunk_scales;
    float *input_scales;
    float *state_scales;
    float *before;
    float *spans;
} ork_scan_halves;

/* The state space scan of every head with its skip and gate, in chunks of rows. A row of `mixed` begins with the
 * gates and ends with the time steps; one of `convolved` holds x, B and C; a, d, time_bias [heads].
 *
 * Held between runs: the state [heads][state_size][head_dim] at the beginning of the chunk, zeros at position 0, and
 * of its rows so far dt x (`inputs` [heads][chunk][head_dim]), how far each has decayed, and the state
 * with them (`decays` [heads][chunk + 1]), and B (`writes` [slots][groups][state_size][chunk], chunks taking the
 * slots in turn: a run may touch as many chunks as there are). `products` [row][groups][chunk] is C . B.
 * head_dim and chunk are multiples of 8, chunk up to 256. `halves` is for the kinds that share the work: there
 * head_dim is a multiple of 16, state_size and chunk are of 32. */
typedef struct {
    const float *mixed;
    const float *convolved;
    const float *time_bias;
    const float *a;
    const float *d;
    float *state;
    float *inputs;
    float *decays;
    float *writes;
    float *products;
    float *output;
    const ork_scan_halves *halves;
    int32_t heads;
    int32_t head_dim;
    int32_t state_size;
    int32_t groups;
    int32_t chunk;
    int32_t slots;
    int32_t mixed_stride;
} ork_scan_step;

/* join: every thread waits after this step until all have finished it. */
typedef struct {
    int32_t kind;
    int32_t join;
    union {
        ork_norm_step norm;
        ork_quantize_step quantize;
        ork_matmul_step matmul;
        ork_dequantize_step dequantize;
        ork_add_step add;
        ork_rope_step rope;
        ork_append_step append;
        ork_attention_step attention;
        ork_gated_step gated;
        ork_cap_step cap;
        ork_route_step route;
        ork_group_step group;
        ork_gather_step gather;
        ork_experts_step experts;
        ork_nibble_experts_step nibble_experts;
        ork_combine_step combine;
        ork_convolve_step convolve;
        ork_scan_step scan;
    } as;
} ork_step;

int ork_plan_run(const ork_step *steps, int32_t count, int32_t rows, int32_t position, int32_t threads);
