/* convoy-kernels: runs any convolution of this project on any shape, against a float64 reference, and times
 * it. */
#include "kernels/check/check_conv.h"
#include "kernels/check/check_fused.h"
#include "kernels/check/check_nhwc.h"
#include "kernels/check/check_operators.h"
#include "kernels/check/time_bottlenecks.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "usage: convoy-kernels --list | --conv SIZES [options] | --table [options] | --networks [options] | "
    "--bottlenecks [options] | --check [options]\n"
    "\n"
    "Runs convoyd's convolution kernels on random input, compares their answers with a float64 reference "
    "computed on\n"
    "the CPU, and times them. Outputs are filled with NaN first, so that one that is not written shows.\n"
    "\n"
    "  --list            names of all kernels; those for comparison only never serve\n"
    "  --conv SIZES      one shape: n,c,h,w,k,r,s[,stride[,pad[,dilation[,groups]]]]\n"
    "                    n images of c x h x w, k output channels, a filter of r x s\n"
    "  --table           both convolutions of ece408 at 100, 1,000 and 10,000 images, every kernel, beside "
    "cuDNN: "
    "the reports' table\n"
    "  --networks        the networks that ship, whole and without their dense layers, on every kernel of "
    "whole_net that takes them\n"
    "  --bottlenecks     resnet50's four bottlenecks, ten inverted residuals of mobilenet_v2 and two of "
    "efficientnet_b0 with one image and with eight (--batches: others): their "
    "layers on the fastest kernels, and as a whole; times alone\n"
    "  --check           some hundred awkward small shapes over every kernel that takes them; exits 1 if one "
    "is wrong\n"
    "\n"
    "with --conv:\n"
    "  --bias            add a bias for each output channel\n"
    "  --residual        add a tensor like the output; with --in-place it is the output's own memory\n"
    "  --act NAME[:ALPHA[:BETA]]  none, relu, leaky_relu, sigmoid, tanh, clip, hard_sigmoid, hard_swish, "
    "swish, or in 16 bits gelu or gelu_tanh\n"
    "  --pool P          then the maximum of each P x P window; 3/2: of 3 x 3, two apart, padded by one\n"
    "  --products P      also of --table: fp32, tf32 or fp16: kernels that round what they multiply no "
    "further than to that (default "
    "fp32)\n"
    "  --u8              8-bit images, H x W x C, normalised on the device (c at most 4)\n"
    "everywhere:\n"
    "  --kernel NAME     one kernel (fused_gemm:128x128), a family (per_layer) or all, the default; of "
    "--check also gemm, whole_net and the operators that it prints; of --bottlenecks how its kernels' names "
    "begin, "
    "without layers beside them\n"
    "  --runs N          timed runs, of which the median is printed (default 30; 0 times nothing)\n"
    "  --batches A,B,..  images of --table, --networks and --bottlenecks, instead of 100,1000,10000 (1,8)\n"
    "  --cudnn PATH      the library beside which --conv and --table run (default libcudnn.so.9, if it is "
    "there; "
    "none: without)\n"
    "  --shapes N        random shapes of --check beside the written ones (default 300); 0: also fewer "
    "networks, and half of the cases of every other kernel\n"
    "  --in-turns        --check gives a shape to some of the instances of a family, which are one code: a "
    "fifth of tensor's, half of nhwc_wgmma's; and tiled a third of the shapes; to each the first one that it "
    "takes\n"
    "  --seed S          repeats a run; without it the clock seeds, and the seed is printed\n"
    "  --device D        the GPU, counted from 0\n"
    "  --verbose         --check prints each shape before it runs\n"
    "  --help            this\n"
    "\n"
    "A kernel is right if max|y - y64| / max|y64| is at most 1e-5. Repeated runs on small shapes find their "
    "data in\n"
    "the cache, as a layer in the middle of a network does; large shapes do not fit it.\n"
    "\n"
    "  convoy-kernels --conv 10000,12,33,33,24,7,7              layer 2 of ece408, all kernels\n"
    "  convoy-kernels --conv 256,64,56,56,64,3,3,1,1 --bias --act relu --kernel fused_gemm\n";

struct options {
    enum { NOTHING, LIST, CONV, TABLE, CHECK, NETWORKS, BOTTLENECKS } what;
    struct check_case which;
    const char *kernel, *cudnn;
    int runs, shapes, device, batches[8], batch_count;
    uint64_t seed;
    bool in_turns, verbose;
};

/* Comma-separated positive (or from `least`) integers; how many there were. */
static int numbers(const char *text, int *values, int most, int least, const char *option)
{
    int count = 0;
    for (const char *at = text;; at++) {
        char *end = NULL;
        long value = strtol(at, &end, 10);
        if (end == at || value < least || value > 1000000000 || count == most ||
            (*end != ',' && *end != '\0'))
            check_die("%s %s: expected up to %d whole numbers from %d on with commas between; see --help",
                      option, text, most, least);
        values[count++] = (int)value;
        at = end;
        if (*at == '\0')
            return count;
    }
}

static int number(const char *text, int least, const char *option)
{
    int value = 0;
    numbers(text, &value, 1, least, option);
    return value;
}

static struct convoy_unary activation(const char *text)
{
    struct convoy_unary act = {CONVOY_UNARY_NONE, 0, 0};
    size_t length = strcspn(text, ":");
    for (int i = 0; i < CONVOY_UNARY_NHWC_KINDS; i++) {
        const char *name = convoy_check_unary_name((enum convoy_unary_kind)i);
        if (strlen(name) != length || strncmp(name, text, length) != 0)
            continue;
        act.kind = (enum convoy_unary_kind)i;
        act.alpha = i == CONVOY_UNARY_LEAKY_RELU ? 0.01F : i == CONVOY_UNARY_HARD_SIGMOID ? 0.2F : 0;
        act.beta = i == CONVOY_UNARY_CLIP ? 6 : i == CONVOY_UNARY_HARD_SIGMOID ? 0.5F : 0;
        if (text[length] == ':') {
            char *end = NULL;
            act.alpha = strtof(text + length + 1, &end);
            if (*end == ':')
                act.beta = strtof(end + 1, &end);
            if (*end != '\0')
                check_die("--act %s: what follows the name must be :ALPHA or :ALPHA:BETA, numbers", text);
        }
        return act;
    }
    check_die("--act %s: no such activation; there are none, relu, leaky_relu, sigmoid, tanh, clip, "
              "hard_sigmoid, hard_swish, swish, gelu and gelu_tanh",
              text);
}

static enum convoy_compute_type compute_type(const char *text)
{
    static const char *const names[] = {"fp32", "tf32", "fp16"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0)
            return (enum convoy_compute_type)i;
    check_die("--products %s: fp32, tf32 or fp16", text);
}

static void read_sizes(const char *text, struct convoy_conv_shape *shape)
{
    int v[11] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1};
    int count = numbers(text, v, 11, 0, "--conv");
    bool positive = count >= 7;
    for (int i = 0; i < 11; i++)
        positive = positive && (v[i] > 0 || i == 8);
    if (!positive)
        check_die("--conv %s: needs at least n,c,h,w,k,r,s, and only the padding may be 0", text);
    if (v[1] % v[10] != 0 || v[4] % v[10] != 0)
        check_die("--conv %s: c and k must be multiples of the groups, %d", text, v[10]);
    *shape = (struct convoy_conv_shape){.n = v[0],
                                        .c = v[1],
                                        .h = v[2],
                                        .w = v[3],
                                        .k = v[4],
                                        .r = v[5],
                                        .s = v[6],
                                        .stride = {v[7], v[7]},
                                        .pad = {v[8], v[8]},
                                        .dilation = {v[9], v[9]},
                                        .groups = v[10],
                                        .pool = 1};
}

static void read_options(int argc, char **argv, struct options *options)
{
    enum {
        PLAIN_LIST = 256,
        SIZES,
        PLAIN_TABLE,
        PLAIN_CHECK,
        PLAIN_NETWORKS,
        PLAIN_BOTTLENECKS,
        BIAS,
        RESIDUAL,
        IN_PLACE,
        ACT,
        POOL,
        U8,
        KERNEL,
        RUNS,
        BATCHES,
        SHAPES,
        IN_TURNS,
        PRODUCTS,
        CUDNN,
        SEED,
        DEVICE,
        VERBOSE
    };
    static const struct option names[] = {
        {"list", no_argument, NULL, PLAIN_LIST},
        {"conv", required_argument, NULL, SIZES},
        {"table", no_argument, NULL, PLAIN_TABLE},
        {"check", no_argument, NULL, PLAIN_CHECK},
        {"networks", no_argument, NULL, PLAIN_NETWORKS},
        {"bottlenecks", no_argument, NULL, PLAIN_BOTTLENECKS},
        {"bias", no_argument, NULL, BIAS},
        {"residual", no_argument, NULL, RESIDUAL},
        {"in-place", no_argument, NULL, IN_PLACE},
        {"act", required_argument, NULL, ACT},
        {"pool", required_argument, NULL, POOL},
        {"u8", no_argument, NULL, U8},
        {"kernel", required_argument, NULL, KERNEL},
        {"runs", required_argument, NULL, RUNS},
        {"batches", required_argument, NULL, BATCHES},
        {"shapes", required_argument, NULL, SHAPES},
        {"in-turns", no_argument, NULL, IN_TURNS},
        {"products", required_argument, NULL, PRODUCTS},
        {"cudnn", required_argument, NULL, CUDNN},
        {"seed", required_argument, NULL, SEED},
        {"device", required_argument, NULL, DEVICE},
        {"verbose", no_argument, NULL, VERBOSE},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct convoy_conv_shape sizes = {0}, rest = {.pool = 1};
    bool overlapping = false;
    int letter = 0;
    while ((letter = getopt_long(argc, argv, "h", names, NULL)) != -1) {
        switch (letter) {
        case PLAIN_LIST:
            options->what = LIST;
            break;
        case SIZES:
            options->what = CONV, read_sizes(optarg, &sizes);
            break;
        case PLAIN_TABLE:
            options->what = TABLE;
            break;
        case PLAIN_CHECK:
            options->what = CHECK;
            break;
        case PLAIN_NETWORKS:
            options->what = NETWORKS;
            break;
        case PLAIN_BOTTLENECKS:
            options->what = BOTTLENECKS;
            break;
        case BIAS:
            rest.bias = true;
            break;
        case RESIDUAL:
            rest.residual = true;
            break;
        case IN_PLACE:
            rest.residual = options->which.in_place = true;
            break;
        case ACT:
            rest.act = activation(optarg);
            break;
        case POOL:
            overlapping = strcmp(optarg, "3/2") == 0;
            rest.pool = overlapping ? 1 : number(optarg, 1, "--pool");
            break;
        case U8:
            rest.u8 = true;
            break;
        case KERNEL:
            options->kernel = optarg;
            break;
        case RUNS:
            options->runs = number(optarg, 0, "--runs");
            break;
        case BATCHES:
            options->batch_count = numbers(optarg, options->batches, 5, 1, "--batches");
            break;
        case CUDNN:
            options->cudnn = optarg;
            break;
        case PRODUCTS:
            rest.compute_type = compute_type(optarg);
            break;
        case IN_TURNS:
            options->in_turns = true;
            break;
        case SHAPES:
            options->shapes = number(optarg, 0, "--shapes");
            break;
        case SEED:
            options->seed = strtoull(optarg, NULL, 0);
            break;
        case DEVICE:
            options->device = number(optarg, 0, "--device");
            break;
        case VERBOSE:
            options->verbose = true;
            break;
        case 'h':
            fputs(help, stdout);
            exit(0);
        default:
            fputs("convoy-kernels --help explains the options\n", stderr);
            exit(2);
        }
    }
    if (optind < argc)
        check_die("%s: not an option; see --help", argv[optind]);
    sizes.bias = rest.bias, sizes.residual = rest.residual, sizes.act = rest.act;
    sizes.pool = rest.pool, sizes.u8 = rest.u8, sizes.compute_type = rest.compute_type;
    options->which.shape = sizes;
    if (options->what != CONV)
        return;
    if (rest.u8 && sizes.c > CONVOY_KERNEL_CHANNELS)
        check_die("--u8: 8-bit images have at most %d channels, not %d", CONVOY_KERNEL_CHANNELS, sizes.c);
    if (rest.residual && (rest.pool > 1 || overlapping))
        check_die("--residual and --pool do not come together");
    if (!check_complete(&options->which))
        check_die(
            "--conv: nothing comes out: the filter (or the pooling window) is larger than the padded image");
    if (overlapping)
        check_pool_overlapping(&options->which, 1);
}

static void list_kernels(void)
{
    int count = 0;
    const struct convoy_conv_kernel *const *kernels = check_kernels(&count);
    for (int i = 0; i < count; i++)
        printf("%-24s%s\n", kernels[i]->name, check_is_reference(kernels[i]) ? " (for comparison only)" : "");
    const struct convoy_fused_kernel *const *wholes = convoy_fused_kernels(&count);
    for (int i = 0; i < count; i++)
        printf("%-24s (of --networks)\n", wholes[i]->name);
}

static void open_device(int device)
{
    int count = 0;
    struct cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0)
        check_die(
            "no CUDA device: %s. Run this where nvidia-smi shows a GPU; in a container, pass the GPU in "
            "(docker run --gpus all)",
            cudaGetErrorString(error));
    if (device >= count)
        check_die("--device %d: there are %d, counted from 0", device, count);
    check_cuda(cudaSetDevice(device), "choosing the device");
    check_cuda(cudaGetDeviceProperties(&properties, device), "asking for the device's properties");
    printf("device %d: %s, compute capability %d.%d, %d multiprocessors\n", device, properties.name,
           properties.major, properties.minor, properties.multiProcessorCount);
}

/* A line of --conv. Returns 1 if it is wrong. */
static int run_one(struct check_problem *problem, const struct convoy_conv_kernel *kernel, int runs)
{
    const struct convoy_conv_shape *s = &problem->which.shape;
    struct check_result result = check_run(problem, kernel, runs);
    bool passed = check_passed(&result);
    printf("%-24s %12.2e %10.4f %12.4f %10.2f%s\n", kernel->name, result.error, result.us / 1000,
           check_estimate(kernel, s) / 1000, result.us > 0 ? 2.0 * s->n * check_work(s) / result.us / 1e6 : 0,
           passed ? "" : "  WRONG");
    if (result.poison)
        printf("    %lld outputs were not written\n", (long long)result.poison);
    return passed ? 0 : 1;
}

static int run_conv(const struct options *options, const struct convoy_conv_kernel *peer)
{
    int count = 0, ran = 0, failures = 0;
    const struct convoy_conv_kernel *const *kernels = check_kernels(&count);
    const struct convoy_conv_shape *s = &options->which.shape;
    struct check_problem problem;
    char text[512];
    check_describe(&options->which, text, sizeof(text));
    printf("%s\nseed %llu\n", text, (unsigned long long)options->seed);
    check_problem_make(&problem, &options->which, options->seed);
    printf("%-24s %12s %10s %12s %10s\n", "kernel", "error", "ms", "guessed ms", "TFLOP/s");
    for (int i = 0; i < count; i++) {
        if (!check_name_matches(kernels[i], options->kernel) || !check_takes(kernels[i], s))
            continue;
        failures += run_one(&problem, kernels[i], options->runs);
        ran++;
    }
    if (ran == 0)
        check_die("--kernel %s: no such kernel, or it does not take this shape; see --list", options->kernel);
    if (peer != NULL && peer->takes(s))
        failures += run_one(&problem, peer, options->runs);
    check_problem_free(&problem);
    return failures;
}

static bool is_conv(const char *name)
{
    int count;
    const struct convoy_conv_kernel *const *kernels = check_kernels(&count);
    for (int i = 0; i < count; i++)
        if (check_name_matches(kernels[i], name))
            return true;
    return false;
}

static int check_all(const struct options *options)
{
    int cases = options->shapes == 0 ? 50 : 100, gemm_cases = cases / 2;
    if (strcmp(options->kernel, "whole_net") == 0)
        return convoy_check_fused(options->seed, options->shapes == 0);
    if (strcmp(options->kernel, "gemm") == 0)
        return convoy_check_gemm(options->seed, gemm_cases);
    if (convoy_check_has_operator(options->kernel))
        return convoy_check_operators(options->seed, cases, options->kernel);
    if (!is_conv(options->kernel))
        check_die("--kernel %s: there is nothing of that name to check; see --list and --help",
                  options->kernel);
    int failures =
        check_shapes(options->seed, options->shapes, options->kernel, options->in_turns, options->verbose);
    if (strcmp(options->kernel, "all") == 0) {
        failures += convoy_check_gemm(options->seed, gemm_cases);
        failures += convoy_check_operators(options->seed, cases, NULL);
        failures += convoy_check_fused(options->seed, options->shapes == 0);
    }
    return failures;
}

/* Where --batches says nothing. */
static void default_batches(struct options *options)
{
    static const int many[] = {100, 1000, 10000}, few[] = {1, 8};
    bool takes_few = options->what == BOTTLENECKS;
    options->batch_count = takes_few ? 2 : 3;
    memcpy(options->batches, takes_few ? few : many, (size_t)options->batch_count * sizeof(int));
}

int main(int argc, char **argv)
{
    struct timespec now;
    setvbuf(stdout, NULL, _IOLBF,
            0); /* what is known stands in a file too, should the device end the program */
    clock_gettime(CLOCK_REALTIME, &now);
    struct options options = {
        .kernel = "all",
        .cudnn = "libcudnn.so.9",
        .runs = 30,
        .shapes = 300,
        .seed = (uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec,
    };
    read_options(argc, argv, &options);
    if (options.what == NOTHING) {
        fputs(help, stderr);
        return 2;
    }
    if (options.what == LIST) {
        list_kernels();
        return 0;
    }
    open_device(options.device);
    if (options.batch_count == 0)
        default_batches(&options);
    if (options.what == BOTTLENECKS) {
        time_bottlenecks(options.runs, options.batches, options.batch_count,
                         strcmp(options.kernel, "all") == 0 ? NULL : options.kernel);
        return 0;
    }
    if (options.what == CHECK)
        return check_all(&options) ? 1 : 0;
    if (options.what == NETWORKS)
        return check_networks(options.seed, options.runs, options.batches, options.batch_count,
                              options.kernel)
                   ? 1
                   : 0;
    const struct convoy_conv_kernel *peer =
        strcmp(options.cudnn, "none") == 0 ? NULL : check_cudnn(options.cudnn);
    int failures = options.what == CONV
                       ? run_conv(&options, peer)
                       : check_table(options.seed, options.runs, options.batches, options.batch_count,
                                     options.kernel, options.which.shape.compute_type, peer);
    return failures ? 1 : 0;
}
