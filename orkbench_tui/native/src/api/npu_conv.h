typedef struct {
    const uint8_t *features;   /* byte address of atom (0,0,0) */
    const int8_t *weights;     /* [kernels/32][channels/32][32][32] */
    uint8_t *output;           /* byte address the write rule calls C */
    int64_t width;             /* feature map: pixels per line */
    int64_t height;            /* feature map: lines */
    int64_t channels;          /* K, multiple of 32 */
    int64_t kernels;           /* N, multiple of 32 */
    int64_t surface_step;      /* atoms from one 16-channel surface to the next, signed */
    int64_t line_stride;       /* atoms from one group of lines to the next */
    int64_t lines_per_group;   /* 1 or 4 */
    int64_t write_width;       /* Ww */
    int64_t write_height;      /* Hw */
    int64_t write_pitch;       /* atoms per written line: Ww + notch */
    int64_t unit_stride;       /* bytes between the units of one pixel */
    int64_t group_stride;      /* bytes between kernel groups */
    int32_t output_bytes;      /* 4, 2 or 1 */
    int32_t scale;             /* output conversion: scale 1, shift 0, offset 0 is none */
    int32_t shift;
    int32_t offset;
    int32_t add_first;         /* 1: offset before the multiplication */
    int32_t half_away;         /* 1: ties away from zero, 0: ties to even */
} ork_npu_conv;

/* 0 on success, -1 when scratch memory is not available. level: -1 picks the best this processor has,
   0 portable, 1 AVX2 or NEON, 2 AVX-512 VNNI; a level the processor lacks falls back to the next lower. */
int ork_npu_conv_int8(const ork_npu_conv *op, int level);
int ork_npu_conv_level(void);
