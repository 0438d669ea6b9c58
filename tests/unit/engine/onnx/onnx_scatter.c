/* Reading and writing at indices of what depends on the model's input, and what integers that have the batch
 * turn into. The values are compared with ONNX Runtime's by the backends' tests (tests/data/forms). */
#include "tests/unit/engine/onnx/onnx_builder.h"

/* x of [N,2,3], into which `values` are written at indices of the given shape. */
static struct builder *written(const char *op, int64_t batch, int rank, const int64_t *shape,
                               const int64_t *indices, int updates_rank, const int64_t *updates)
{
    struct builder *b = builder_new(18);
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    builder_input(b, "x", DIMS(batch, 2, 3));
    builder_output(b, "y");
    builder_ints(b, "flat", (int)count, indices);
    builder_ints(b, "shape", rank, shape);
    builder_node(b, "Reshape", "flat,shape", "indices");
    builder_floats(b, "values", updates_rank, updates, NULL);
    builder_node(b, op, "x,indices,values", "y");
    return b;
}

/* "own" of [N,1]: the number of each image of x in its batch; and the constants "zero" and "one". */
static void number_images(struct builder *b)
{
    builder_ints(b, "zero", DIMS(0));
    builder_ints(b, "one", DIMS(1));
    builder_ints(b, "column", DIMS(-1, 1));
    builder_node(b, "Shape", "x", "sizes");
    builder_node(b, "Gather", "sizes,zero", "n1");
    builder_node(b, "Squeeze", "n1", "n");
    builder_node(b, "Squeeze", "zero", "from");
    builder_node(b, "Squeeze", "one", "step");
    builder_node(b, "Range", "from,n,step", "images");
    builder_node(b, "Reshape", "images,column", "own");
}

/* The indices {n, channel, place} of the image that each n stands for. */
static struct builder *write_in_images(const char *places, int rank, const int64_t *shape, int64_t channels)
{
    struct builder *b = builder_new(18);
    builder_input(b, "x", DIMS(-1, 2, 3));
    builder_output(b, "y");
    builder_ints(b, "two", DIMS(2));
    builder_ints(b, "places", rank, shape);
    number_images(b);
    builder_node(b, "Mul", "own,zero", "none");
    builder_node(b, "Add", places, "second");
    builder_int(b, builder_node(b, "Concat", "own,second", "indices"), "axis", -1);
    builder_floats(b, "values", DIMS(1, channels), NULL);
    builder_node(b, "ScatterND", "x,indices,values", "y");
    return b;
}

Test(onnx_scatter, slices_are_written_in_each_image)
{
    struct builder *b = write_in_images("none,one", DIMS(1), 3); /* x[:, 1] = three numbers */
    expect_output(b, "[N,2,3]");
    expect_sound(b->loaded);
    builder_free(b);
}

Test(onnx_scatter, places_of_other_images_are_refused)
{
    struct builder *b = write_in_images("own,one", DIMS(1), 3); /* x[n, n + 1] */
    builder_refused(b, -EINVAL, "outside its data");
    builder_refused(written("ScatterND", -1, DIMS(1, 1), (int64_t[]){0}, DIMS(1, 2, 3)), -ENOTSUP,
                    "some of the images of a batch");
    builder_refused(written("ScatterElements", -1, DIMS(1, 1, 3), (int64_t[]){0, 0, 0}, DIMS(1, 1, 3)),
                    -ENOTSUP, "some of the images of a batch");
}

Test(onnx_scatter, a_file_whose_batch_is_one_may_name_it)
{
    struct builder *b = written("ScatterND", 1, DIMS(2, 3), (int64_t[]){0, 1, 0, 0, 1, 2}, DIMS(2));
    expect_output(b, "[N,2,3]");
    builder_free(b);
    /* Not in the order of a grid, twice at a place, and outside. */
    builder_refused(written("ScatterND", 1, DIMS(2, 3), (int64_t[]){0, 1, 2, 0, 1, 0}, DIMS(2)), -ENOTSUP,
                    "no grid");
    builder_refused(written("ScatterND", 1, DIMS(2, 3), (int64_t[]){0, 1, 1, 0, 1, 1}, DIMS(2)), -ENOTSUP,
                    "no grid");
    builder_refused(written("ScatterND", 1, DIMS(2, 3), (int64_t[]){0, 0, 0, 0, 1, 1}, DIMS(2)), -ENOTSUP,
                    "no grid");
    builder_refused(
        written("ScatterND", 1, DIMS(4, 3), (int64_t[]){0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1}, DIMS(4)),
        -ENOTSUP, "no grid");
    builder_refused(written("ScatterND", 1, DIMS(3, 3), (int64_t[]){0, 0, 0, 0, 0, 1, 0, 1, 0}, DIMS(3)),
                    -ENOTSUP, "no grid");
    builder_refused(written("ScatterND", 1, DIMS(2, 3), (int64_t[]){0, 1, 2, 0, 1, 3}, DIMS(2)), -EINVAL,
                    "outside its data");
    builder_refused(written("ScatterND", 1, DIMS(2, 3), (int64_t[]){0, 1, 0, 0, 1, 2}, DIMS(3)), -EINVAL,
                    "do not go together");
}

Test(onnx_scatter, elements_of_the_first_image_alone_are_refused)
{
    struct builder *b = written("ScatterElements", -1, DIMS(1, 1, 3), (int64_t[]){0, 0, 0}, DIMS(1, 1, 3));
    builder_int(b, b->nodes[b->graph.n_node - 1], "axis", 1);
    builder_refused(b, -ENOTSUP, "some of the images of a batch");
}

Test(onnx_scatter, elements_lie_alike_along_other_dimensions)
{
    struct builder *b = builder_new(18);
    builder_input(b, "x", DIMS(1, 2, 3));
    builder_output(b, "y");
    builder_ints(b, "flat", DIMS(1, 1, 0, 2, 2, 2));
    builder_ints(b, "two_by_three", DIMS(1, 2, 3));
    builder_ints(b, "three_by_two", DIMS(1, 3, 2));
    builder_node(b, "Reshape", "flat,two_by_three", "indices");
    builder_int(b, builder_node(b, "GatherElements", "x,indices", "y"), "axis", 2);
    builder_refused(b, -ENOTSUP, "differ along other dimensions than 2");

    b = written("ScatterElements", 1, DIMS(1, 2, 3), (int64_t[]){0, 0, 0, 1, 1, 1}, DIMS(1, 2, 3));
    builder_int(b, b->nodes[b->graph.n_node - 1], "axis", 1);
    expect_output(b, "[N,2,3]");
    builder_free(b);
}

Test(onnx_scatter, a_number_of_an_image_is_no_value)
{
    struct builder *b = builder_new(18); /* x + n would need to know which image of the batch it is */
    builder_input(b, "x", DIMS(-1, 2));
    builder_output(b, "y");
    number_images(b);
    builder_int(b, builder_node(b, "Cast", "own", "floats"), "to", FLOAT_TYPE);
    builder_node(b, "Add", "x,floats", "y");
    builder_refused(b, -ENOTSUP, "counts the images of a batch");
}
