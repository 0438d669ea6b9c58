/* The ONNX project's own conformance cases (Debian's libonnx-testdata) on the CPU backend.
 *
 * Every case of the folders node/ and pytorch-converted/ whose model uses nothing but operators that convoyd
 * reads is either run, with all inputs but the first bound as constants, and compared with its expected
 * output, or stands in the table of conformance_left_out.h with the reason why not. A case in neither, a case
 * of the table that would run, and a name in the table that is no case are failures. docs/conformance.md is
 * this test's own account: it must equal what the test would write, and with CONVOY_WRITE_CONFORMANCE=FILE
 * the test writes it.
 *
 * With CONVOY_CASES=FOLDER the test runs the cases of that folder instead, whatever their operators are, and
 * prints a line for each: agrees, refused or WRONG. tests/survey/node_cases.sh calls it so. */
#include "tests/unit/engine/backends/backend_harness.h"
#include "tests/unit/engine/backends/conformance_left_out.h"

#include "engine/onnx/onnx.h"
#include "engine/onnx/tensor.h"

#include <dirent.h>
#include <onnx/onnx.pb-c.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#define CASES            "/usr/share/libonnx-testdata/data"
#define DOCUMENT         CONVOY_TEST_DATA "/../../docs/conformance.md"
#define MAX_INPUTS       16
#define RELATIVE         1e-4
#define RELATIVE_OF_HALF 0x1p-11 /* the case rounds its output to 11 bits, convoyd does not */
#define ABSOLUTE         1e-6

/* The code of a case that is loaded and then answered wrongly, or cannot be compared: worse than a refusal.
 */
#define WRONG (-EDOM)

static const char *const operators[] = {
    "Conv",
    "BatchNormalization",
    "Relu",
    "LeakyRelu",
    "Sigmoid",
    "Tanh",
    "Clip",
    "HardSwish",
    "HardSigmoid",
    "MaxPool",
    "AveragePool",
    "GlobalAveragePool",
    "ReduceMean",
    "Gemm",
    "MatMul",
    "Add",
    "Mul",
    "Sub",
    "Div",
    "Pad",
    "Flatten",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "Concat",
    "Softmax",
    "Identity",
    "Dropout",
    "Constant",
    "Cast",
    "Abs",
    "Acos",
    "Acosh",
    "And",
    "ArgMax",
    "ArgMin",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Attention",
    "CastLike",
    "Ceil",
    "Celu",
    "ConstantOfShape",
    "ConvInteger",
    "ConvTranspose",
    "Cos",
    "Cosh",
    "CumSum",
    "DepthToSpace",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "Einsum",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Expand",
    "EyeLike",
    "Floor",
    "Gather",
    "Gelu",
    "GlobalLpPool",
    "GlobalMaxPool",
    "Greater",
    "GreaterOrEqual",
    "GroupNormalization",
    "If",
    "InstanceNormalization",
    "IsNaN",
    "LRN",
    "LayerNormalization",
    "Less",
    "LessOrEqual",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "LpPool",
    "MatMulInteger",
    "Max",
    "Mean",
    "MeanVarianceNormalization",
    "Min",
    "Mish",
    "Mod",
    "Neg",
    "Not",
    "OneHot",
    "Or",
    "PRelu",
    "Pow",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
    "RMSNormalization",
    "Range",
    "Reciprocal",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Resize",
    "Round",
    "ScatterND",
    "Selu",
    "Shape",
    "Shrink",
    "Sign",
    "Sin",
    "Sinh",
    "Size",
    "Slice",
    "Softplus",
    "Softsign",
    "SpaceToDepth",
    "Split",
    "Sqrt",
    "Sum",
    "Swish",
    "Tan",
    "ThresholdedRelu",
    "Tile",
    "TopK",
    "Trilu",
    "Upsample",
    "Where",
    "Xor",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* One line per case that is run or left out, for the document; and what went wrong. */
struct account {
    char document[262144], failures[262144];
    size_t document_length, failures_length;
    int run, left, failed, total;
};

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t *length, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int added = vsnprintf(text + *length, 262144 - *length, format, arguments);
    va_end(arguments);
    cr_assert(added >= 0 && *length + (size_t)added < 262144, "the account is too long");
    *length += (size_t)added;
}

static bool is_known(const char *operator_name)
{
    for (size_t i = 0; i < COUNT(operators); i++)
        if (strcmp(operators[i], operator_name) == 0)
            return true;
    return false;
}

static const char *reason_to_leave_out(const char *name)
{
    for (size_t i = 0; i < COUNT(left_out); i++)
        if (strcmp(left_out[i].name, name) == 0)
            return left_out[i].reason;
    return NULL;
}

static Onnx__ModelProto *read_model(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (file == NULL)
        return NULL;
    cr_assert_eq(fstat(fileno(file), &status), 0);
    uint8_t *bytes = malloc((size_t)status.st_size + 1);
    cr_assert(bytes != NULL);
    cr_assert_eq(fread(bytes, 1, (size_t)status.st_size, file), (size_t)status.st_size);
    fclose(file);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, (size_t)status.st_size, bytes);
    free(bytes);
    cr_assert(model != NULL, "%s does not unpack", path);
    return model;
}

static bool uses_known_operators(const Onnx__ModelProto *model)
{
    for (size_t i = 0; i < model->graph->n_node; i++)
        if (!is_known(model->graph->node[i]->op_type))
            return false;
    return model->graph->n_node > 0;
}

static bool is_initializer(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (strcmp(graph->initializer[i]->name, name) == 0)
            return true;
    return false;
}

struct inputs {
    int count, bound;
    struct convoy_onnx_tensor tensors[MAX_INPUTS];   /* count of them */
    struct convoy_onnx_binding bindings[MAX_INPUTS]; /* bound of them: all but the first */
};

static void free_inputs(struct inputs *inputs)
{
    for (int i = 0; i < inputs->count; i++)
        convoy_onnx_tensor_free(&inputs->tensors[i]);
}

/* input_0.pb, input_1.pb ... are the model's inputs that have no initializer, in order. Those that convoyd
 * cannot read (strings, sequences) are left out of the bindings; the model must then be refused. Returns 0
 * where all were read. */
static int read_inputs(const char *folder, const Onnx__GraphProto *graph, struct inputs *inputs,
                       struct convoy_error *error)
{
    int status = 0;
    memset(inputs, 0, sizeof(*inputs));
    for (size_t i = 0; i < graph->n_input; i++) {
        char path[512];
        if (is_initializer(graph, graph->input[i]->name))
            continue;
        cr_assert_lt(inputs->count, MAX_INPUTS, "%s has more than %d inputs", folder, MAX_INPUTS);
        snprintf(path, sizeof(path), "%s/test_data_set_0/input_%d.pb", folder, inputs->count);
        struct convoy_onnx_tensor *tensor = &inputs->tensors[inputs->count];
        int failed = convoy_onnx_read_tensor_pb(path, tensor, error);
        if (failed) {
            status = WRONG;
            memset(tensor, 0, sizeof(*tensor));
        } else if (inputs->count > 0) {
            struct convoy_onnx_binding *binding = &inputs->bindings[inputs->bound++];
            binding->name = graph->input[i]->name;
            binding->shape = tensor->shape;
            binding->is_int64 = tensor->is_int64;
            binding->data = tensor->is_int64 ? (const void *)tensor->ints : (const void *)tensor->floats;
        }
        inputs->count++;
    }
    return status;
}

/* Answers are float32, and in the file integers where they are places. */
static double expected_at(const struct convoy_onnx_tensor *expected, int64_t i)
{
    return expected->is_int64 ? (double)expected->ints[i] : (double)expected->floats[i];
}

static int compare(const char *folder, int output, const float *values, uint32_t count,
                   struct convoy_error *error)
{
    char path[512];
    struct convoy_onnx_tensor expected = {0};
    snprintf(path, sizeof(path), "%s/test_data_set_0/output_%d.pb", folder, output);
    int failed = convoy_onnx_read_tensor_pb(path, &expected, error) == 0 ? 0 : WRONG;
    bool is_half = expected.data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
    double relative = is_half ? RELATIVE_OF_HALF : RELATIVE;
    if (!failed && !is_half && expected.data_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT &&
        expected.data_type != ONNX__TENSOR_PROTO__DATA_TYPE__INT64)
        failed = convoy_fail(error, WRONG, "output %d is neither float32 nor float16 nor int64", output);
    if (!failed && convoy_shape_elements(&expected.shape) != count)
        failed = convoy_fail(error, WRONG, "output %d has %u elements, expected %ld", output, count,
                             (long)convoy_shape_elements(&expected.shape));
    for (uint32_t i = 0; i < count && !failed; i++) {
        double y = expected_at(&expected, i);
        if (!(fabs(values[i] - y) <= ABSOLUTE + relative * fabs(y)))
            failed = convoy_fail(error, WRONG, "output %d, element %u: %.9g, expected %.9g", output, i,
                                 (double)values[i], y);
    }
    convoy_onnx_tensor_free(&expected);
    return failed;
}

/* The values of an input of float32, float16 or uint8. */
static void copy_input(const struct convoy_onnx_tensor *tensor, float *values)
{
    int64_t elements = convoy_shape_elements(&tensor->shape);
    for (int64_t i = 0; i < elements; i++)
        values[i] = tensor->is_int64 ? (float)tensor->ints[i] : tensor->floats[i];
}

static bool is_taken(int32_t type)
{
    return type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT || type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
           type == ONNX__TENSOR_PROTO__DATA_TYPE__UINT8;
}

static int run_graph(const char *folder, const struct convoy_graph *graph, const struct inputs *inputs,
                     struct convoy_error *error)
{
    struct convoy_net *net = NULL;
    struct convoy_net_info info;
    struct convoy_load_options options = {.max_batch = 1};
    int failed = backend->load(device, graph, &options, &net, &info, error);
    if (failed)
        return failed;
    size_t bytes = (size_t)convoy_shape_elements(&inputs->tensors[0].shape) * sizeof(float);
    size_t stride = (bytes + 63) / 64 * 64;
    size_t output_stride = (info.outputs_per_row * sizeof(float) + 63) / 64 * 64;
    float *input = aligned_bytes(stride);
    float *output = aligned_bytes(output_stride);
    copy_input(&inputs->tensors[0], input);
    memset(output, 0xff, output_stride);
    struct convoy_job job = {.layout = CONVOY_LAYOUT_F32_CHW,
                             .rows = 1,
                             .input = input,
                             .input_stride = stride,
                             .output = output,
                             .output_stride = output_stride};
    if (bytes / sizeof(float) != (size_t)info.channels * info.height * info.width)
        failed = convoy_fail(error, WRONG, "the input has another size than the case");
    else
        run(net, &job);
    const float *values = output;
    for (uint32_t k = 0; k < info.output_count && !failed; values += info.output_elements[k++])
        failed = compare(folder, (int)k, values, info.output_elements[k], error);
    free(input);
    free(output);
    backend->unload(device, net);
    return failed;
}

/* 0 where the case agrees, WRONG where it does not, another negative errno where it is refused. */
static int run_case(const char *folder, const Onnx__GraphProto *model, struct convoy_error *error)
{
    char path[512];
    struct inputs inputs;
    struct convoy_graph *graph = NULL;
    int unread = read_inputs(folder, model, &inputs, error);
    struct convoy_onnx_options options = {.no_batch = true,
                                          .old_opsets = true,
                                          .input_shape = inputs.tensors[0].shape,
                                          .bindings = inputs.bindings,
                                          .binding_count = inputs.bound};
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    int failed = convoy_onnx_load(path, &options, &graph, error);
    if (!failed && unread)
        failed = convoy_fail(error, WRONG, "the model is read although its inputs cannot be");
    if (!failed && !is_taken(inputs.tensors[0].data_type))
        failed = convoy_fail(error, WRONG, "the model is read although its input is of another type");
    if (!failed)
        failed = run_graph(folder, graph, &inputs, error);
    convoy_graph_free(graph);
    free_inputs(&inputs);
    return failed;
}

static void account_for(struct account *account, const char *set, const char *name)
{
    char folder[400];
    char path[512];
    struct convoy_error error = {""};
    snprintf(folder, sizeof(folder), "%s/%s/%s", CASES, set, name);
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    Onnx__ModelProto *model = read_model(path);
    if (model == NULL)
        return;
    account->total++;
    if (uses_known_operators(model)) {
        const char *reason = reason_to_leave_out(name);
        int failed = run_case(folder, model->graph, &error);
        if (reason != NULL) {
            account->left++;
            append(account->document, &account->document_length, "| `%s` | left out | %s |\n", name, reason);
        } else {
            account->run++;
            append(account->document, &account->document_length, "| `%s` | run | |\n", name);
        }
        const char *complaint = NULL;
        if (failed && reason == NULL)
            complaint = error.message;
        else if (!failed && reason != NULL)
            complaint = "it runs: take it out of the table of cases that are left out";
        else if (failed == WRONG)
            complaint = "it is left out, but answered wrongly instead of refused";
        if (complaint != NULL) {
            account->failed++;
            append(account->failures, &account->failures_length, "%s/%s: %s (%s)\n", set, name, complaint,
                   failed ? error.message : "right");
        }
    }
    onnx__model_proto__free_unpacked(model, NULL);
}

static int by_name(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void account_for_folder(struct account *account, const char *set)
{
    char path[512];
    struct dirent **entries = NULL;
    snprintf(path, sizeof(path), "%s/%s", CASES, set);
    int count = scandir(path, &entries, by_name, alphasort);
    cr_assert(count > 0, "%s cannot be listed", path);
    append(account->document, &account->document_length,
           "\n## %s\n\n| case | | why it is left out |\n| --- | --- | --- |\n", set);
    for (int i = 0; i < count; i++) {
        account_for(account, set, entries[i]->d_name);
        free(entries[i]);
    }
    free((void *)entries);
}

static void check_document(const struct account *account)
{
    static char wanted[280000];
    static char found[280000];
    snprintf(
        wanted, sizeof(wanted),
        "# Conformance\n\n"
        "Written by `tests/unit/engine/backends/conformance.c`, which fails when this page and what it does "
        "differ.\n\n"
        "The ONNX project ships cases (a model, inputs, the expected output); Debian's `libonnx-testdata` "
        "1.12.0 "
        "has them.\nOf the %d cases in its folders `node` and `pytorch-converted`, %d use nothing but "
        "operators "
        "that convoyd reads.\nOf these, %d are run on the CPU backend, every input but the first bound as a "
        "constant, and agree with the expected\noutput within %g relative plus %g (2^-11 relative where a "
        "case rounds its output to float16); %d are left "
        "out, each for the "
        "reason beside it. A case that is left out is refused\nat load with a sentence, never computed "
        "wrongly.\n%s",
        account->total, account->run + account->left, account->run, RELATIVE, ABSOLUTE, account->left,
        account->document);
    const char *write = getenv("CONVOY_WRITE_CONFORMANCE");
    if (write != NULL) {
        FILE *file = fopen(write, "w");
        cr_assert(file != NULL && fputs(wanted, file) >= 0 && fclose(file) == 0, "%s cannot be written",
                  write);
    }
    FILE *file = fopen(DOCUMENT, "r");
    cr_assert(file != NULL, "docs/conformance.md is missing");
    size_t length = fread(found, 1, sizeof(found) - 1, file);
    fclose(file);
    found[length] = '\0';
    cr_assert(strcmp(wanted, found) == 0, "docs/conformance.md is out of date; run this test with "
                                          "CONVOY_WRITE_CONFORMANCE=docs/conformance.md");
}

static void check_table(void)
{
    for (size_t i = 0; i < COUNT(left_out); i++) {
        char node[512];
        char converted[512];
        snprintf(node, sizeof(node), "%s/node/%s/model.onnx", CASES, left_out[i].name);
        snprintf(converted, sizeof(converted), "%s/pytorch-converted/%s/model.onnx", CASES, left_out[i].name);
        struct stat status;
        cr_expect(stat(node, &status) == 0 || stat(converted, &status) == 0,
                  "the table names %s, which is no case", left_out[i].name);
        for (size_t k = 0; k < i; k++)
            cr_expect(strcmp(left_out[i].name, left_out[k].name) != 0, "%s stands twice in the table",
                      left_out[i].name);
    }
}

/* Prints each result before the next case begins, so that a crash is that of the case after the last line. */
static void run_other_cases(const char *set)
{
    struct dirent **entries = NULL;
    int wrong = 0, count = scandir(set, &entries, by_name, alphasort);
    cr_assert(count > 0, "%s cannot be listed", set);
    for (int i = 0; i < count; i++) {
        char folder[400], path[512];
        struct convoy_error error = {""};
        snprintf(folder, sizeof(folder), "%s/%s", set, entries[i]->d_name);
        snprintf(path, sizeof(path), "%s/model.onnx", folder);
        Onnx__ModelProto *model = read_model(path);
        cr_assert(model != NULL, "%s is missing", path);
        int failed = run_case(folder, model->graph, &error);
        const char *result = !failed ? "agrees" : failed == WRONG ? "WRONG: " : "refused: ";
        printf("case %s %s%s\n", entries[i]->d_name, result, failed ? error.message : "");
        fflush(stdout);
        wrong += failed == WRONG;
        onnx__model_proto__free_unpacked(model, NULL);
        free(entries[i]);
    }
    free((void *)entries);
    cr_expect(wrong == 0, "%d cases of %s are answered wrongly", wrong, set);
}

Test(conformance, onnx_cases, .init = open_backend, .fini = close_backend, .timeout = 300)
{
    static struct account account;
    struct stat status;
    const char *other = getenv("CONVOY_CASES");
    if (other != NULL) {
        run_other_cases(other);
        return;
    }
    if (stat(CASES "/node", &status) != 0)
        cr_skip_test("no conformance cases in " CASES ": install Debian's libonnx-testdata");
    account_for_folder(&account, "node");
    account_for_folder(&account, "pytorch-converted");
    check_table();
    cr_expect(account.failed == 0, "%d cases:\n%s", account.failed, account.failures);
    check_document(&account);
}
