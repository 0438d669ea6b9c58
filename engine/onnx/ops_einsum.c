/* Einsum: two operands at a time become a product of matrices, whose rows, columns and sums are what the
 * letters make of them. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/reduce.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MOST_OPERANDS 8

/* A tensor and the letters of its dimensions. */
struct term {
    int tensor;
    char letters[CONVOY_MAX_RANK + 1];
};

static const struct convoy_shape *shape_of(const struct onnx_importer *importer, const struct term *term)
{
    return &importer->graph->tensors[term->tensor].shape;
}

/* Splits "ab,bc->ac". Without "->" the result has the letters that are there once, in order. */
static int parse(struct onnx_importer *importer, struct term *terms, char *result)
{
    char text[128] = "", packed[128] = "";
    size_t used = 0, term = 0, length = 0;
    int status = onnx_attribute_text(importer, "equation", text, sizeof text);
    if (status != 0)
        return status;
    for (const char *c = text; *c != '\0'; c++)
        if (*c != ' ')
            packed[used++] = *c;
    packed[used] = '\0';
    char *arrow = strstr(packed, "->");
    const char *end = arrow != NULL ? arrow : packed + used;
    for (const char *c = packed; c <= end; c++) {
        if (c == end || *c == ',') {
            terms[term++].letters[length] = '\0';
            length = 0;
            if (c != end && term == (size_t)importer->input_count)
                return onnx_fail(importer, -EINVAL, "its equation has more terms than it has inputs");
        } else if (!isalpha((unsigned char)*c) || length == CONVOY_MAX_RANK ||
                   memchr(terms[term].letters, *c, length) != NULL) {
            return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its equation '%s' is not supported", text);
        } else {
            terms[term].letters[length++] = *c;
        }
    }
    if (term != (size_t)importer->input_count)
        return onnx_fail(importer, -EINVAL, "its equation has fewer terms than it has inputs");
    used = 0;
    for (const char *c = arrow != NULL ? arrow + 2 : ""; *c != '\0'; c++) {
        if (!isalpha((unsigned char)*c) || used == CONVOY_MAX_RANK || memchr(result, *c, used) != NULL)
            return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its equation '%s' is not supported", text);
        result[used++] = *c;
    }
    for (int letter = 'A'; arrow == NULL && letter <= 'z'; letter++) {
        int count = 0;
        for (size_t i = 0; i < term; i++)
            count += strchr(terms[i].letters, letter) != NULL;
        if (count == 1 && isalpha(letter) && used < CONVOY_MAX_RANK)
            result[used++] = (char)letter;
    }
    result[used] = '\0';
    return 0;
}

/* Sums over the letters that neither `kept` nor `other` has. */
static int sum_out(struct onnx_importer *importer, struct term *term, const char *kept, const char *other)
{
    unsigned mask = 0;
    size_t used = 0;
    char letters[CONVOY_MAX_RANK + 1];
    for (size_t i = 0; term->letters[i] != '\0'; i++) {
        char letter = term->letters[i];
        if (strchr(kept, letter) == NULL && strchr(other, letter) == NULL)
            mask |= 1U << i;
        else
            letters[used++] = letter;
    }
    letters[used] = '\0';
    if (mask == 0)
        return 0;
    const struct convoy_shape out = onnx_reduced_shape(shape_of(importer, term), mask, false);
    int status = onnx_emit_sum(importer, term->tensor, mask, &term->tensor);
    snprintf(term->letters, sizeof term->letters, "%.*s", CONVOY_MAX_RANK, letters);
    return status == 0 ? onnx_emit_reshape(importer, term->tensor, &out, &term->tensor) : status;
}

/* The dimensions in another order of letters. */
static int permute(struct onnx_importer *importer, struct term *term, const char *letters)
{
    int perm[CONVOY_MAX_RANK];
    for (int i = 0; letters[i] != '\0'; i++)
        perm[i] = (int)(strchr(term->letters, letters[i]) - term->letters);
    int status = onnx_emit_transpose(importer, term->tensor, perm, &term->tensor);
    snprintf(term->letters, sizeof term->letters, "%.*s", CONVOY_MAX_RANK, letters);
    return status;
}

/* Appends the letters of `from` that are, or are not, in `a` and in `b`; the batch's first, so that what they
 * become together has the batch in front. Returns how many. */
static int append(const struct onnx_importer *importer, const struct term *from, const char *a, bool in_a,
                  const char *b, bool in_b, char *letters)
{
    int count = 0, batch_axis = shape_of(importer, from)->batch_axis;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; from->letters[i] != '\0'; i++) {
            char letter = from->letters[i];
            if ((strchr(a, letter) != NULL) == in_a && (strchr(b, letter) != NULL) == in_b &&
                (i == batch_axis) == (pass == 0))
                letters[count++] = letter;
        }
    letters[count] = '\0';
    return count;
}

/* Reshapes to three dimensions of so many letters each. */
static int to_three(struct onnx_importer *importer, struct term *term, const int counts[3])
{
    const struct convoy_shape in = *shape_of(importer, term);
    struct convoy_shape out = {.rank = 3, .batch_axis = -1};
    for (int i = 0, axis = 0; i < 3; i++) {
        if (in.batch_axis >= axis && in.batch_axis < axis + counts[i])
            out.batch_axis = i;
        out.dims[i] = onnx_product(&in, axis, axis + counts[i]);
        axis += counts[i];
    }
    return onnx_emit_reshape(importer, term->tensor, &out, &term->tensor);
}

/* *left = left times right, with the letters of `kept` alone. */
static int multiply(struct onnx_importer *importer, struct term *left, struct term right, const char *kept)
{
    char batch[CONVOY_MAX_RANK + 1], rows[CONVOY_MAX_RANK + 1], sums[CONVOY_MAX_RANK + 1],
        columns[CONVOY_MAX_RANK + 1], order[4 * CONVOY_MAX_RANK];
    int status = sum_out(importer, left, kept, right.letters);
    if (status == 0)
        status = sum_out(importer, &right, kept, left->letters);
    if (status != 0)
        return status;
    for (int i = 0; left->letters[i] != '\0'; i++) {
        const char *same = strchr(right.letters, left->letters[i]);
        if (same != NULL &&
            shape_of(importer, left)->dims[i] != shape_of(importer, &right)->dims[same - right.letters])
            return onnx_fail(importer, -EINVAL, "letter '%c' of its equation stands for different lengths",
                             left->letters[i]);
    }
    const struct term *with_batch = shape_of(importer, left)->batch_axis >= 0 ? left : &right;
    const char *other = with_batch == left ? right.letters : left->letters;
    int shared = append(importer, with_batch, other, true, kept, true, batch);
    int summed = append(importer, with_batch, other, true, kept, false, sums);
    int row = append(importer, left, right.letters, false, kept, true, rows);
    int column = append(importer, &right, left->letters, false, kept, true, columns);
    if (shared + row + column > CONVOY_MAX_RANK)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its result has more than %d dimensions",
                           CONVOY_MAX_RANK);
    struct convoy_shape out = {.rank = shared + row + column, .batch_axis = -1};
    snprintf(order, sizeof order, "%s%s%s", batch, rows, columns);
    for (int i = 0; order[i] != '\0'; i++) {
        const char *in_left = strchr(left->letters, order[i]), *in_right = strchr(right.letters, order[i]);
        const struct convoy_shape *shape = shape_of(importer, in_left != NULL ? left : &right);
        int axis = (int)(in_left != NULL ? in_left - left->letters : in_right - right.letters);
        out.dims[i] = shape->dims[axis];
        if ((in_left != NULL && shape_of(importer, left)->batch_axis == in_left - left->letters) ||
            (in_right != NULL && shape_of(importer, &right)->batch_axis == in_right - right.letters))
            out.batch_axis = i;
    }
    char left_order[4 * CONVOY_MAX_RANK], right_order[4 * CONVOY_MAX_RANK];
    snprintf(left_order, sizeof left_order, "%s%s%s", batch, rows, sums);
    snprintf(right_order, sizeof right_order, "%s%s%s", batch, sums, columns);
    status = permute(importer, left, left_order);
    if (status == 0)
        status = permute(importer, &right, right_order);
    if (status == 0)
        status = to_three(importer, left, (const int[3]){shared, row, summed});
    if (status == 0)
        status = to_three(importer, &right, (const int[3]){shared, summed, column});
    if (status == 0)
        status = onnx_emit_matmul(importer, left->tensor, right.tensor, &left->tensor);
    if (status == 0)
        status = onnx_emit_reshape(importer, left->tensor, &out, &left->tensor);
    snprintf(left->letters, sizeof left->letters, "%.*s", CONVOY_MAX_RANK, order);
    return status;
}

static int read_einsum(struct onnx_importer *importer)
{
    struct term terms[MOST_OPERANDS] = {{0}};
    char result[CONVOY_MAX_RANK + 1] = "";
    int status = parse(importer, terms, result);
    for (int i = 0; i < importer->input_count && status == 0; i++) {
        status = onnx_need_tensor(importer, i, &terms[i].tensor);
        if (status == 0 && (size_t)shape_of(importer, &terms[i])->rank != strlen(terms[i].letters))
            status = onnx_fail(importer, -EINVAL, "its input %d has not the dimensions of its equation", i);
    }
    for (int i = 1; i < importer->input_count && status == 0; i++) {
        char kept[(MOST_OPERANDS + 1) * CONVOY_MAX_RANK + 1];
        size_t used = (size_t)snprintf(kept, sizeof kept, "%s", result);
        for (int later = i + 1; later < importer->input_count; later++)
            used += (size_t)snprintf(kept + used, sizeof kept - used, "%s", terms[later].letters);
        status = multiply(importer, &terms[0], terms[i], kept);
    }
    if (status == 0)
        status = sum_out(importer, &terms[0], result, "");
    if (status == 0 && strlen(terms[0].letters) != strlen(result))
        status = onnx_fail(importer, -EINVAL, "its result has letters that its inputs lack");
    for (int i = 0; status == 0 && result[i] != '\0'; i++)
        if (strchr(terms[0].letters, result[i]) == NULL)
            status = onnx_fail(importer, -EINVAL, "its result has letters that its inputs lack");
    if (status == 0)
        status = permute(importer, &terms[0], result);
    return status == 0 ? onnx_set_tensor(importer, terms[0].tensor) : status;
}

const struct onnx_operator onnx_einsum_operators[] = {
    {"Einsum", 1, MOST_OPERANDS, read_einsum, ONNX_FILE_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
