int ork_pack_tiles(const int8_t *codes, int32_t n, int32_t k, int8_t *tiles, int32_t threads);
int ork_quantize_weights(const float *weights, int32_t n, int32_t k, int32_t rotation, int8_t *tiles, float *scales,
                         int32_t threads);
void ork_rotate_rows(const float *input, float *output, int32_t rows, int32_t width, int32_t block);
/* tiles has room for the padded weight and one more row for each thread; k is a multiple of 32, group divides it. */
void ork_inflate_tiles(const uint8_t *nibbles, const int8_t *multipliers, const int8_t *levels, int32_t n, int32_t k,
                       int32_t group, int8_t *tiles, int32_t threads);
