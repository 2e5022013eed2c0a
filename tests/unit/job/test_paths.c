/* Files that a job names: relative to what, inside of what, and what is said when they are not there. */
#include "core/base/cleanup.h"
#include "tests/unit/job/parsing.h"

#include <sys/stat.h>

static void write_text(const char *path, const char *text)
{
    struct mt_error error = {0};
    mt_assert_ok(mt_file_write_atomic(path, text, strlen(text), 0644, &error), &error);
}

static void make_folder(const char *path)
{
    struct mt_error error = {0};
    mt_assert_ok(mt_folder_create(path, 0755, &error), &error);
}

/* A daemon's state folder: models/, datasets/, and beside them `outside/`. */
static struct mt_job_context confined(void **state)
{
    make_folder(mt_test_path(state, "state/models"));
    make_folder(mt_test_path(state, "state/datasets"));
    make_folder(mt_test_path(state, "outside"));
    write_text(mt_test_path(state, "outside/secret.txt"), "secret\n");
    write_text(mt_test_path(state, "state/datasets/a.txt"), "text\n");
    return (struct mt_job_context){.model_base = mt_test_path(state, "state/models"),
                                   .dataset_base = mt_test_path(state, "state/datasets"),
                                   .dataset_dir = mt_test_path(state, "state/datasets"),
                                   .models_folder = mt_test_path(state, "state/models"),
                                   .confined = true};
}

/* The one error of the good document with dataset.path = `path`; "" when there is none. In `text`. */
static const char *error_of(const struct mt_job_context *context, const char *path, char text[2048])
{
    mt_autojson json_t *document = mt_test_job_document("x", "");
    struct mt_job_errors errors = {0};
    struct mt_error error = {0};
    struct mt_job *job = NULL;
    json_object_set_new(json_object_get(document, "dataset"), "path", json_string(path));
    *text = '\0';
    if (mt_job_parse(document, context, &job, &errors) < 0) {
        assert_int_equal(errors.count, 1);
        assert_string_equal(errors.items[0].pointer, "/dataset/path");
        mt_job_errors_report(&errors, &error);
        snprintf(text, 2048, "%s", error.message);
    }
    mt_job_errors_free(&errors);
    mt_job_free(job);
    return text;
}

static void over_the_api_a_relative_path_is_inside_of_the_state_folder(void **state)
{
    const struct mt_job_context context = confined(state);
    mt_autojson json_t *document = mt_test_job_document("a.txt", "");
    struct mt_job *job = mt_test_job_parse(document, &context);
    mt_autofree char *real = realpath(mt_test_path(state, "state/datasets/a.txt"), NULL);
    assert_string_equal(job->dataset.paths[0], real);
    mt_job_free(job);
}

static void over_the_api_nothing_leads_out_of_the_roots(void **state)
{
    struct mt_job_context context = confined(state);
    const char *outside = mt_test_path(state, "outside/secret.txt");
    const char *link = mt_test_path(state, "state/datasets/link.txt");
    const char *folder_link = mt_test_path(state, "state/datasets/elsewhere");
    char text[2048];
    assert_int_equal(symlink(outside, link), 0);
    assert_int_equal(symlink(mt_test_path(state, "outside"), folder_link), 0);
    const char *const paths[] = {
        outside,
        "/etc/passwd",
        "../../outside/secret.txt",
        "../datasets/../../outside/secret.txt",
        "link.txt",
        "elsewhere/secret.txt",
        link,
        "elsewhere",
        "/nowhere/x",
        "../datasets2",
        "..",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (!strstr(error_of(&context, paths[i], text), "is outside of the folders that jobs may name"))
            fail_msg("%s: %s", paths[i], text);
    }
    /* What is outside and what is not there at all get the same answer; inside, the answer is precise. */
    mt_assert_mentions(error_of(&context, "nothing.txt", text), "No such file");
    assert_string_equal(error_of(&context, "../datasets/./a.txt", text), "");
    /* A root of the administrator's. */
    const char *const roots[] = {mt_test_path(state, "outside")};
    context.roots = roots;
    context.num_roots = 1;
    assert_string_equal(error_of(&context, outside, text), "");
    assert_string_equal(error_of(&context, "link.txt", text), "");
    mt_assert_mentions(error_of(&context, "/etc/passwd", text), "outside");
}

static void a_root_with_a_longer_name_is_another_folder(void **state)
{
    const struct mt_job_context context = confined(state);
    char text[2048];
    make_folder(mt_test_path(state, "state/datasets-private"));
    write_text(mt_test_path(state, "state/datasets-private/b.txt"), "text\n");
    mt_assert_mentions(error_of(&context, mt_test_path(state, "state/datasets-private/b.txt"), text),
                       "is outside");
}

static void a_data_set_entry_cannot_name_a_file_outside(void **state)
{
    const struct mt_job_context context = confined(state);
    static const char text[] = "model: {architecture: llama, hidden_size: 8, num_layers: 1, "
                               "num_attention_heads: 1}\ndataset: {name: sly}\n";
    write_text(
        mt_test_path(state, "state/datasets/dataset_info.json"),
        "{\"sly\": {\"file_name\": \"../../outside/secret.txt\"}, \"good\": {\"file_name\": \"a.txt\"}}");
    struct mt_error error = {0};
    mt_autojson json_t *document = NULL;
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    mt_assert_ok(mt_yaml_parse(text, sizeof text - 1, "test", &document, NULL, &error), &error);
    assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
    assert_int_equal(errors.count, 1);
    assert_string_equal(errors.items[0].pointer, "/dataset/name");
    mt_assert_mentions(errors.items[0].detail, "is outside");
    mt_job_errors_free(&errors);
    mt_assert_ok(mt_job_set(document, "dataset.name=good", &error), &error);
    job = mt_test_job_parse(document, &context);
    assert_string_equal(job->dataset.name, "good");
    mt_job_free(job);
}

static void a_path_with_a_zero_byte_is_refused(void **state)
{
    const struct mt_job_context context = {0};
    mt_autojson json_t *document = mt_test_job_document("x", "");
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    (void)state;
    json_object_set_new(json_object_get(document, "dataset"), "path", json_stringn("/tmp\0/x", 7));
    assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
    assert_int_equal(errors.count, 1);
    mt_assert_mentions(errors.items[0].detail, "NUL");
    mt_job_errors_free(&errors);
}

static void on_the_command_line_paths_are_relative_to_the_current_folder(void **state)
{
    char before[1024];
    const struct mt_job_context context = {0};
    make_folder(mt_test_path(state, "here/texts"));
    write_text(mt_test_path(state, "here/texts/a.txt"), "text\n");
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(mt_test_path(state, "here")), 0);
    mt_autojson json_t *document = mt_test_job_document("./texts//a.txt", "");
    struct mt_job *job = mt_test_job_parse(document, &context);
    char expected[2048], current[1024];
    assert_non_null(getcwd(current, sizeof current));
    snprintf(expected, sizeof expected, "%s/texts/a.txt", current);
    assert_string_equal(job->dataset.paths[0], expected);
    mt_job_free(job);
    /* The same for a document on its way to a daemon. */
    struct mt_error error = {0};
    mt_assert_ok(mt_job_make_absolute(document, &error), &error);
    assert_string_equal(json_string_value(mt_pointer_get(document, "/dataset/path")), expected);
    mt_assert_ok(mt_job_set(document, "dataset.path=[texts, /abs]", &error), &error);
    mt_assert_ok(mt_job_set(document, "model.tokenizer=bytes", &error), &error);
    mt_assert_ok(mt_job_make_absolute(document, &error), &error);
    snprintf(expected, sizeof expected, "%s/texts", current);
    assert_string_equal(json_string_value(mt_pointer_get(document, "/dataset/path/0")), expected);
    assert_string_equal(json_string_value(mt_pointer_get(document, "/dataset/path/1")), "/abs");
    assert_string_equal(json_string_value(mt_pointer_get(document, "/model/tokenizer")), "bytes");
    assert_int_equal(chdir(before), 0);
}

static void empty_data_is_said_to_be_empty(void **state)
{
    const struct mt_job_context context = {0};
    char text[2048];
    write_text(mt_test_path(state, "empty.txt"), "");
    make_folder(mt_test_path(state, "nothing"));
    mt_assert_mentions(error_of(&context, mt_test_path(state, "empty.txt"), text), "is empty");
    mt_assert_mentions(error_of(&context, mt_test_path(state, "nothing"), text), "is empty");
}

/* The one error of a job that starts from the model folder or file `path`. */
static const char *model_error_of(const char *key, const char *value, const char *cache, char text[2048])
{
    const struct mt_job_context context = {.hub_cache = cache};
    struct mt_job_errors errors = {0};
    struct mt_error error = {0};
    struct mt_job *job = NULL;
    mt_autojson json_t *document =
        json_pack("{s:{s:s}, s:{s:s}}", "model", key, value, "dataset", "path", "/etc/hostname");
    *text = '\0';
    if (mt_job_parse(document, &context, &job, &errors) < 0) {
        mt_job_errors_report(&errors, &error);
        snprintf(text, 2048, "%s", error.message);
    } else {
        snprintf(text, 2048, "good: %s", job->model.path);
    }
    mt_job_errors_free(&errors);
    mt_job_free(job);
    return text;
}

/* Over the API, where the store is no root: it is the daemon's own. */
static const char *ollama_error_of(void **state, const char *name, char text[2048])
{
    mt_autofree char *store = mt_job_ollama_store();
    struct mt_job_context context = confined(state);
    struct mt_job_errors errors = {0};
    struct mt_error error = {0};
    struct mt_job *job = NULL;
    context.ollama_store = store;
    mt_autojson json_t *document =
        json_pack("{s:{s:s}, s:{s:s}}", "model", "path", name, "dataset", "path", "a.txt");
    if (mt_job_parse(document, &context, &job, &errors) < 0) {
        mt_job_errors_report(&errors, &error);
        snprintf(text, 2048, "%s", error.message);
    } else {
        snprintf(text, 2048, "good: %s", job->model.path);
        for (size_t i = 0; i < job->num_notes; i++)
            snprintf(text + strlen(text), 2048 - strlen(text), "\n%s", job->notes[i]);
    }
    mt_job_errors_free(&errors);
    mt_job_free(job);
    return text;
}

static void a_model_folder_is_looked_into(void **state)
{
    char text[2048];
    make_folder(mt_test_path(state, "model"));
    mt_assert_mentions(model_error_of("path", mt_test_path(state, "absent"), NULL, text), "No such file");
    mt_assert_mentions(model_error_of("path", "~/absent", NULL, text),
                       "~ stands for your home in a shell only");
    mt_assert_mentions(model_error_of("path", mt_test_path(state, "model"), NULL, text),
                       "neither config.json");
    write_text(mt_test_path(state, "model/config.json"), "{}");
    write_text(mt_test_path(state, "model/pytorch_model.bin"), "x");
    mt_assert_mentions(model_error_of("path", mt_test_path(state, "model"), NULL, text),
                       "safe_serialization");
    mt_assert_mentions(model_error_of("path", mt_test_path(state, "model/pytorch_model.bin"), NULL, text),
                       "pickle files are never read");
    write_text(mt_test_path(state, "model/model.safetensors"), "x");
    mt_assert_mentions(model_error_of("path", mt_test_path(state, "model"), NULL, text), "good: ");
    write_text(mt_test_path(state, "model.gguf"), "x");
    mt_assert_mentions(model_error_of("path", mt_test_path(state, "model.gguf"), NULL, text), "no GGUF file");
    write_text(mt_test_path(state, "model.gguf"), "GGUF");
    mt_assert_mentions(model_error_of("path", mt_test_path(state, "model.gguf"), NULL, text), "good: ");
}

static void the_one_gguf_model_of_a_folder_stands_for_it(void **state)
{
    char text[2048];
    const char *folder = mt_test_path(state, "studio");
    make_folder(folder);
    mt_assert_mentions(model_error_of("path", folder, NULL, text), "neither config.json nor a GGUF model");
    write_text(mt_test_path(state, "studio/mmproj-tiny-f16.gguf"), "GGUF");
    write_text(mt_test_path(state, "studio/.hidden.gguf"), "GGUF");
    mt_assert_mentions(model_error_of("path", folder, NULL, text), "neither config.json nor a GGUF model");
    write_text(mt_test_path(state, "studio/tiny-00001-of-00002.gguf"), "GGUF");
    write_text(mt_test_path(state, "studio/tiny-00002-of-00002.gguf"), "GGUF");
    mt_assert_mentions(model_error_of("path", folder, NULL, text), "good: ");
    mt_assert_mentions(text, "/studio/tiny-00001-of-00002.gguf");
    write_text(mt_test_path(state, "studio/B.gguf"), "GGUF");
    mt_assert_mentions(model_error_of("path", folder, NULL, text), "holds 2 GGUF models");
    mt_assert_mentions(text, "there are B.gguf, tiny-00001-of-00002.gguf");
    write_text(mt_test_path(state, "studio/config.json"), "{}"); /* as repositories have it beside them */
    mt_assert_mentions(model_error_of("path", folder, NULL, text), "holds 2 GGUF models");
    write_text(mt_test_path(state, "studio/model.safetensors"),
               "x"); /* a model folder, whatever else it holds */
    mt_assert_mentions(model_error_of("path", folder, NULL, text), "good: ");
    mt_assert_mentions(strrchr(text, '/'), "/studio");
}

static void a_gguf_model_of_a_folder_leads_not_out_of_the_roots(void **state)
{
    const struct mt_job_context context = confined(state);
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    mt_autojson json_t *document = mt_test_job_document("a.txt", "");
    make_folder(mt_test_path(state, "state/models/linked"));
    write_text(mt_test_path(state, "outside/secret.gguf"), "GGUF");
    assert_int_equal(symlink(mt_test_path(state, "outside/secret.gguf"),
                             mt_test_path(state, "state/models/linked/tiny.gguf")),
                     0);
    json_object_set_new(document, "model", json_pack("{s:s}", "path", "linked"));
    assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
    mt_assert_mentions(errors.items[0].detail, "outside of the folders");
    mt_job_errors_free(&errors);
    /* Nor is told what lies there. */
    make_folder(mt_test_path(state, "state/models/repository"));
    assert_int_equal(
        symlink(mt_test_path(state, "outside"), mt_test_path(state, "state/models/repository/a")), 0);
    json_object_set_new(document, "model", json_pack("{s:s, s:s}", "path", "repository", "file", "secret"));
    assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
    mt_assert_mentions(errors.items[0].detail, "/repository holds no GGUF model");
    mt_job_errors_free(&errors);
}

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define MODEL_LAYER                                                                                          \
    "{\"mediaType\": \"application/vnd.ollama.image.model\", \"digest\": \"sha256:" DIGITS "\"}"

/* As the hub's cache has them: the names, by which the parts find one another, are links. */
static void a_part_of_a_gguf_model_keeps_its_name_over_the_api(void **state)
{
    const struct mt_job_context context = confined(state);
    mt_autojson json_t *document = mt_test_job_document("a.txt", "");
    const char *part = mt_test_path(state, "state/models/snapshots/1/m-00001-of-00002.gguf");
    make_folder(mt_test_path(state, "state/models/blobs"));
    make_folder(mt_test_path(state, "state/models/snapshots/1"));
    write_text(mt_test_path(state, "state/models/blobs/0a"), "GGUF and more");
    write_text(mt_test_path(state, "outside/0b"), "GGUF and more");
    assert_int_equal(symlink("../../blobs/0a", part), 0);
    assert_int_equal(symlink("snapshots/1", mt_test_path(state, "state/models/newest")), 0);
    mt_autofree char *folder = realpath(mt_test_path(state, "state/models/snapshots/1"), NULL);
    mt_autofree char *expected = mt_path_join(folder, "m-00001-of-00002.gguf");
    static const char *const given[] = {"snapshots/1/m-00001-of-00002.gguf", "newest/m-00001-of-00002.gguf"};
    for (size_t i = 0; i < 2; i++) {
        mt_autojson json_t *model = json_pack("{s:s}", "path", given[i]);
        json_object_set(document, "model", model);
        struct mt_job *job = mt_test_job_parse(document, &context);
        assert_string_equal(job->model.path, expected);
        mt_job_free(job);
    }
    assert_int_equal(unlink(part), 0);
    assert_int_equal(symlink(mt_test_path(state, "outside/0b"), part), 0);
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    assert_true(mt_job_parse(document, &context, &job, &errors) < 0);
    mt_assert_mentions(errors.items[0].detail, "is outside of the folders that jobs may name");
    mt_job_errors_free(&errors);
}

static void an_ollama_model_is_found_by_its_manifest(void **state)
{
    char text[2048];
    make_folder(mt_test_path(state, "ollama/manifests/registry.ollama.ai/library/tiny"));
    make_folder(mt_test_path(state, "ollama/manifests/hf.co/Org/tiny"));
    make_folder(mt_test_path(state, "ollama/blobs"));
    assert_int_equal(setenv("OLLAMA_MODELS", mt_test_path(state, "ollama"), 1), 0);
    write_text(mt_test_path(state, "ollama/manifests/registry.ollama.ai/library/tiny/latest"),
               "{\"layers\": [{\"mediaType\": \"application/vnd.ollama.image.license\"}, " MODEL_LAYER "]}");
    write_text(mt_test_path(state, "ollama/manifests/hf.co/Org/tiny/q8"), "{\"layers\": [" MODEL_LAYER "]}");
    mt_assert_mentions(ollama_error_of(state, "ollama:tiny", text), "is not there; fetch it again");
    write_text(mt_test_path(state, "elsewhere"), "GGUF");
    assert_int_equal(
        symlink(mt_test_path(state, "elsewhere"), mt_test_path(state, "ollama/blobs/sha256-" DIGITS)), 0);
    mt_assert_mentions(ollama_error_of(state, "ollama:tiny", text), "is not there; fetch it again");
    assert_int_equal(unlink(mt_test_path(state, "ollama/blobs/sha256-" DIGITS)), 0);
    write_text(mt_test_path(state, "ollama/blobs/sha256-" DIGITS), "GGUF");
    mt_assert_mentions(ollama_error_of(state, "ollama:tiny", text), "good: ");
    mt_assert_mentions(text, "/blobs/sha256-" DIGITS);
    mt_assert_mentions(ollama_error_of(state, "ollama:tiny:latest", text), "good: ");
    mt_assert_mentions(ollama_error_of(state, "ollama:library/tiny:latest", text), "good: ");
    mt_assert_mentions(ollama_error_of(state, "ollama:hf.co/Org/tiny:q8", text), "good: ");
    assert_null(strstr(text, "projector"));
    mt_assert_mentions(ollama_error_of(state, "ollama:HF.co/org/Tiny:Q8", text), "good: ");
    mt_assert_mentions(ollama_error_of(state, "ollama:other", text), "ollama pull other");
    mt_assert_mentions(ollama_error_of(state, "ollama:hf.co/Org/tiny", text),
                       "latest is not there; of it there is q8;");
    static const char *const wrong[] = {
        "ollama:",      "ollama:../../etc/passwd", "ollama:tiny:../x", "ollama:a/b/c/d", "ollama:/tiny",
        "ollama:tiny:", "ollama:.hidden",          "ollama:a b",       "ollama:tiny/:x", "ollama:%2e%2e/x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        mt_assert_mentions(ollama_error_of(state, wrong[i], text), "is not the name of an Ollama model");
    write_text(mt_test_path(state, "ollama/manifests/registry.ollama.ai/library/tiny/latest"),
               "{\"layers\": [" MODEL_LAYER ", {\"mediaType\": \"application/vnd.ollama.image.adapter\"}]}");
    mt_assert_mentions(ollama_error_of(state, "ollama:tiny", text),
                       "with an adapter beside it, which is not");
    mt_assert_mentions(text, "ollama show --modelfile tiny");
    write_text(mt_test_path(state, "ollama/manifests/registry.ollama.ai/library/tiny/latest"),
               "{\"layers\": [" MODEL_LAYER ", " MODEL_LAYER "]}");
    mt_assert_mentions(ollama_error_of(state, "ollama:tiny", text), "is a model in several parts");
    write_text(mt_test_path(state, "ollama/manifests/registry.ollama.ai/library/tiny/latest"),
               "{\"layers\": [" MODEL_LAYER
               ", {\"mediaType\": \"application/vnd.ollama.image.projector\"}]}");
    mt_assert_mentions(ollama_error_of(state, "ollama:tiny", text), "good: ");
    mt_assert_mentions(text, "The model has a projector for images");
    write_text(mt_test_path(state, "ollama/manifests/registry.ollama.ai/library/tiny/latest"),
               "{\"layers\": [{\"mediaType\": \"application/vnd.ollama.image.model\", \"digest\": "
               "\"sha256:../../../x\"}]}");
    mt_assert_mentions(ollama_error_of(state, "ollama:tiny", text), "the digest of the model is none");
}

static void a_model_name_is_found_in_the_hub_cache(void **state)
{
    char text[2048];
    const char *cache = mt_test_path(state, "hub");
    make_folder(mt_test_path(state, "hub/models--Org--Tiny/snapshots/abc123"));
    make_folder(mt_test_path(state, "hub/models--Org--Tiny/snapshots/000000"));
    make_folder(mt_test_path(state, "hub/models--Org--Tiny/refs"));
    write_text(mt_test_path(state, "hub/models--Org--Tiny/refs/main"), "abc123\n");
    write_text(mt_test_path(state, "hub/models--Org--Tiny/snapshots/abc123/config.json"), "{}");
    write_text(mt_test_path(state, "hub/models--Org--Tiny/snapshots/abc123/model.safetensors"), "x");
    mt_assert_mentions(model_error_of("name", "Org/Tiny", cache, text), "good: ");
    mt_assert_mentions(text, "/snapshots/abc123");
    make_folder(mt_test_path(state, "hub/models--Org--Packed/snapshots/abc123"));
    write_text(mt_test_path(state, "hub/blob"), "GGUF");
    assert_int_equal(symlink(mt_test_path(state, "hub/blob"),
                             mt_test_path(state, "hub/models--Org--Packed/snapshots/abc123/packed.gguf")),
                     0);
    mt_assert_mentions(model_error_of("name", "Org/Packed", cache, text), "good: ");
    mt_assert_mentions(text, "/snapshots/abc123/packed.gguf");
    mt_assert_mentions(model_error_of("name", "Org/Other", cache, text), "hf download Org/Other");
    mt_assert_mentions(model_error_of("name", "Org/../../etc", cache, text), "not the name of a model");
    mt_assert_mentions(model_error_of("name", "Org/Tiny; rm -rf /", cache, text), "not the name of a model");
}

static void unknown_data_sets_name_the_known_ones(void **state)
{
    const struct mt_job_context context = {0};
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    make_folder(mt_test_path(state, "data"));
    write_text(mt_test_path(state, "data/dataset_info.json"),
               "{\"alpaca_en_demo\": {\"file_name\": \"a.json\"}, \"far\": {\"ms_hub_url\": \"Org/Far\"}}");
    static const struct {
        const char *name, *detail, *suggestion;
    } cases[] = {
        {"alpaca_en_dem", "it has \"alpaca_en_demo\", \"far\"", "alpaca_en_demo"},
        {"alpaca_en_demo", "No such file", NULL},
        {"far", "nothing is downloaded", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mt_autojson json_t *document = mt_test_job_document("x", "");
        json_object_set_new(
            document, "dataset",
            json_pack("{s:s, s:s}", "name", cases[i].name, "dataset_dir", mt_test_path(state, "data")));
        assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
        assert_int_equal(errors.count, 1);
        assert_string_equal(errors.items[0].pointer, "/dataset/name");
        mt_assert_mentions(errors.items[0].detail, cases[i].detail);
        if (cases[i].suggestion)
            assert_string_equal(errors.items[0].suggestion, cases[i].suggestion);
        mt_job_errors_free(&errors);
    }
}

static void a_registry_may_begin_with_a_byte_order_mark(void **state)
{
    const struct mt_job_context context = {.dataset_base = mt_test_path(state, "data")};
    make_folder(mt_test_path(state, "data"));
    write_text(mt_test_path(state, "data/dataset_info.json"),
               "\xef\xbb\xbf{\"words\": {\"file_name\": \"words.txt\"}}");
    write_text(mt_test_path(state, "data/words.txt"), "words\n");
    mt_autojson json_t *document = mt_test_job_document("x", "");
    json_object_set_new(document, "dataset",
                        json_pack("{s:s, s:s}", "name", "words", "dataset_dir", mt_test_path(state, "data")));
    mt_job_free(mt_test_job_parse(document, &context));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(over_the_api_a_relative_path_is_inside_of_the_state_folder),
        mt_test_in_folder(over_the_api_nothing_leads_out_of_the_roots),
        mt_test_in_folder(a_root_with_a_longer_name_is_another_folder),
        mt_test_in_folder(a_data_set_entry_cannot_name_a_file_outside),
        cmocka_unit_test(a_path_with_a_zero_byte_is_refused),
        mt_test_in_folder(on_the_command_line_paths_are_relative_to_the_current_folder),
        mt_test_in_folder(empty_data_is_said_to_be_empty),
        mt_test_in_folder(a_model_folder_is_looked_into),
        mt_test_in_folder(the_one_gguf_model_of_a_folder_stands_for_it),
        mt_test_in_folder(a_gguf_model_of_a_folder_leads_not_out_of_the_roots),
        mt_test_in_folder(a_model_name_is_found_in_the_hub_cache),
        mt_test_in_folder(a_part_of_a_gguf_model_keeps_its_name_over_the_api),
        mt_test_in_folder(an_ollama_model_is_found_by_its_manifest),
        mt_test_in_folder(unknown_data_sets_name_the_known_ones),
        mt_test_in_folder(a_registry_may_begin_with_a_byte_order_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
