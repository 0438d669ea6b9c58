/* cuDNN as one more kernel of convoy-kernels. The library is opened at run time if it is there: convoyd
 * itself never sees it. It is called as a program that wants speed would call it: the algorithm that its own
 * trial runs found fastest for this shape, and as much workspace as that asks for. */
#include "kernels/check/check_conv.h"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#include <dlfcn.h>
#include <stdio.h>

#define FUNCTIONS(X)                                                                                         \
    X(cudnnGetErrorString)                                                                                   \
    X(cudnnGetVersion)                                                                                       \
    X(cudnnCreate)                                                                                           \
    X(cudnnSetStream)                                                                                        \
    X(cudnnCreateTensorDescriptor)                                                                           \
    X(cudnnSetTensor4dDescriptor)                                                                            \
    X(cudnnCreateFilterDescriptor)                                                                           \
    X(cudnnSetFilter4dDescriptor)                                                                            \
    X(cudnnCreateConvolutionDescriptor)                                                                      \
    X(cudnnSetConvolution2dDescriptor)                                                                       \
    X(cudnnSetConvolutionGroupCount)                                                                         \
    X(cudnnSetConvolutionMathType)                                                                           \
    X(cudnnCreateActivationDescriptor)                                                                       \
    X(cudnnSetActivationDescriptor)                                                                          \
    X(cudnnCreatePoolingDescriptor)                                                                          \
    X(cudnnSetPooling2dDescriptor)                                                                           \
    X(cudnnFindConvolutionForwardAlgorithm)                                                                  \
    X(cudnnConvolutionForward)                                                                               \
    X(cudnnAddTensor)                                                                                        \
    X(cudnnActivationForward)                                                                                \
    X(cudnnPoolingForward)

/* What stands for one shape, the last that was asked for; never freed. */
static struct {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name */
#define MEMBER(name) __typeof__(&(name)) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x, y, pooled, bias;
    cudnnFilterDescriptor_t weights;
    cudnnConvolutionDescriptor_t convolution;
    cudnnActivationDescriptor_t activation;
    cudnnPoolingDescriptor_t pooling;
    cudnnConvolutionFwdAlgoPerf_t best;
} dnn;

static void require(cudnnStatus_t status, const char *what)
{
    if (status != CUDNN_STATUS_SUCCESS)
        check_die("cuDNN, %s: %s", what, dnn.cudnnGetErrorString(status));
}

static size_t plain_floats(const struct convoy_conv_shape *s)
{
    return (size_t)s->k * (s->c / s->groups) * s->r * s->s;
}

static void plain_pack(const struct convoy_conv_shape *s, const float *weights, float *packed)
{
    for (size_t i = 0; i < plain_floats(s); i++)
        packed[i] = weights[i];
}

static void describe(const struct convoy_conv_shape *s)
{
    static const cudnnActivationMode_t modes[] = {[CONVOY_UNARY_RELU] = CUDNN_ACTIVATION_RELU,
                                                  [CONVOY_UNARY_SIGMOID] = CUDNN_ACTIVATION_SIGMOID,
                                                  [CONVOY_UNARY_TANH] = CUDNN_ACTIVATION_TANH};
    const cudnnTensorFormat_t nchw = CUDNN_TENSOR_NCHW;
    const cudnnDataType_t fp32 = CUDNN_DATA_FLOAT;
    require(dnn.cudnnSetTensor4dDescriptor(dnn.x, nchw, fp32, s->n, s->c, s->h, s->w), "input");
    require(dnn.cudnnSetTensor4dDescriptor(dnn.y, nchw, fp32, s->n, s->k, s->oh, s->ow), "output");
    require(dnn.cudnnSetTensor4dDescriptor(dnn.bias, nchw, fp32, 1, s->k, 1, 1), "bias");
    require(
        dnn.cudnnSetTensor4dDescriptor(dnn.pooled, nchw, fp32, s->n, s->k, s->oh / s->pool, s->ow / s->pool),
        "pooled output");
    require(dnn.cudnnSetFilter4dDescriptor(dnn.weights, fp32, nchw, s->k, s->c / s->groups, s->r, s->s),
            "weights");
    require(dnn.cudnnSetConvolution2dDescriptor(dnn.convolution, s->pad[0], s->pad[1], s->stride[0],
                                                s->stride[1], s->dilation[0], s->dilation[1],
                                                CUDNN_CROSS_CORRELATION, fp32),
            "convolution");
    require(dnn.cudnnSetConvolutionGroupCount(dnn.convolution, s->groups), "groups");
    require(dnn.cudnnSetConvolutionMathType(dnn.convolution, CUDNN_FMA_MATH), "fp32 without tf32");
    if (s->act.kind != CONVOY_UNARY_NONE)
        require(dnn.cudnnSetActivationDescriptor(dnn.activation, modes[s->act.kind], CUDNN_PROPAGATE_NAN, 0),
                "activation");
    if (s->pool > 1)
        require(dnn.cudnnSetPooling2dDescriptor(dnn.pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, s->pool,
                                                s->pool, 0, 0, s->pool, s->pool),
                "pooling");
}

/* Chooses the algorithm as well: what does not run at all is not taken. */
static bool takes(const struct convoy_conv_shape *s)
{
    bool known = s->act.kind == CONVOY_UNARY_NONE || s->act.kind == CONVOY_UNARY_RELU ||
                 s->act.kind == CONVOY_UNARY_SIGMOID || s->act.kind == CONVOY_UNARY_TANH;
    if (s->u8 || s->residual || !known)
        return false;
    describe(s);
    require(dnn.cudnnSetStream(dnn.handle, NULL), "stream"); /* the last one it knew is gone */
    cudnnConvolutionFwdAlgoPerf_t tried[CUDNN_CONVOLUTION_FWD_ALGO_COUNT];
    int count = 0;
    require(dnn.cudnnFindConvolutionForwardAlgorithm(dnn.handle, dnn.x, dnn.weights, dnn.convolution, dnn.y,
                                                     CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &count, tried),
            "trying the algorithms");
    for (int i = 0; i < count; i++) { /* the fastest first */
        if (tried[i].status == CUDNN_STATUS_SUCCESS && tried[i].mathType == CUDNN_FMA_MATH) {
            dnn.best = tried[i];
            return true;
        }
    }
    return false;
}

static float estimate_us(const struct convoy_conv_shape *s)
{
    (void)s;
    return dnn.best.time * 1000; /* its own trial run */
}

/* The convolution's output, where pooling makes another of it. */
static size_t unpooled_bytes(const struct convoy_conv_shape *s)
{
    return s->pool > 1 ? ((size_t)s->n * s->k * s->oh * s->ow * sizeof(float) + 255) / 256 * 256 : 0;
}

static size_t scratch_bytes(const struct convoy_conv_shape *s)
{
    return unpooled_bytes(s) + dnn.best.memory;
}

static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    const float one = 1, zero = 0;
    char *workspace = (char *)operands->scratch + unpooled_bytes(s);
    float *y = s->pool > 1 ? operands->scratch : operands->y;
    require(dnn.cudnnSetStream(dnn.handle, stream), "stream");
    require(dnn.cudnnConvolutionForward(dnn.handle, &one, dnn.x, operands->x.data, dnn.weights,
                                        operands->weights, dnn.convolution, dnn.best.algo, workspace,
                                        dnn.best.memory, &zero, dnn.y, y),
            "convolution");
    if (s->bias)
        require(dnn.cudnnAddTensor(dnn.handle, &one, dnn.bias, operands->bias, &one, dnn.y, y), "bias");
    if (s->act.kind != CONVOY_UNARY_NONE)
        require(dnn.cudnnActivationForward(dnn.handle, dnn.activation, &one, dnn.y, y, &zero, dnn.y, y),
                "activation");
    if (s->pool > 1)
        require(
            dnn.cudnnPoolingForward(dnn.handle, dnn.pooling, &one, dnn.y, y, &zero, dnn.pooled, operands->y),
            "pooling");
    return cudaGetLastError();
}

static const struct convoy_conv_kernel kernel = {
    "cudnn", CONVOY_COMPUTE_FP32, takes, estimate_us, plain_floats, plain_pack, scratch_bytes, launch, false};

const struct convoy_conv_kernel *check_cudnn(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        printf("without cuDNN: %s\n", dlerror());
        return NULL;
    }
#define LOOK_UP(name)                                                                                        \
    if ((dnn.name = (__typeof__(&(name)))dlsym(library, #name)) == NULL)                                     \
        check_die("%s: %s is not there", path, #name);
    FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    cudnnStatus_t opened = dnn.cudnnCreate(&dnn.handle);
    if (opened != CUDNN_STATUS_SUCCESS) {
        printf("without cuDNN: it cannot be opened here: %s\n", dnn.cudnnGetErrorString(opened));
        return NULL;
    }
    require(dnn.cudnnCreateTensorDescriptor(&dnn.x), "descriptor");
    require(dnn.cudnnCreateTensorDescriptor(&dnn.y), "descriptor");
    require(dnn.cudnnCreateTensorDescriptor(&dnn.pooled), "descriptor");
    require(dnn.cudnnCreateTensorDescriptor(&dnn.bias), "descriptor");
    require(dnn.cudnnCreateFilterDescriptor(&dnn.weights), "descriptor");
    require(dnn.cudnnCreateConvolutionDescriptor(&dnn.convolution), "descriptor");
    require(dnn.cudnnCreateActivationDescriptor(&dnn.activation), "descriptor");
    require(dnn.cudnnCreatePoolingDescriptor(&dnn.pooling), "descriptor");
    printf("beside cuDNN %zu, fp32 without tf32, its fastest algorithm by its own trials\n",
           dnn.cudnnGetVersion());
    return &kernel;
}

#else

#include <stdio.h>

const struct convoy_conv_kernel *check_cudnn(const char *path)
{
    printf("without cuDNN (%s): this was built where cudnn.h is not\n", path);
    return NULL;
}

#endif
