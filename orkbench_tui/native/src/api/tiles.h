int ork_pack_tiles(const int8_t *codes, int32_t n, int32_t k, int8_t *tiles, int32_t threads);
int ork_quantize_weights(const float *weights, int32_t n, int32_t k, int32_t rotation, int8_t *tiles, float *scales,
                         int32_t threads);
void ork_rotate_rows(const float *input, float *output, int32_t rows, int32_t width, int32_t block);
