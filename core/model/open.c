#include "core/model/open.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/job/model_folder.h"
#include "core/model/gguf_config.h"

int mt_model_read_config(const char *path, json_t **config, struct mt_error *error)
{
    *config = NULL;
    if (mt_gguf_is(path)) {
        struct mt_gguf *file;
        int r = mt_gguf_open(path, &file, error);
        if (r == 0)
            r = mt_gguf_to_config(file, config, error);
        mt_gguf_close(file);
        return r;
    }
    mt_autofree char *file = mt_path_join(path, "config.json");
    mt_autofree char *gguf = NULL;
    int r = mt_gguf_in_folder(path, NULL, &gguf, error);
    if (r == 0 && gguf)
        r = mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s holds a GGUF model: name %s", path, gguf);
    if (r < 0)
        return r;
    return file ? mt_json_read(file, MT_REASON_BAD_MODEL, config, error)
                : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to read config.json");
}

int mt_model_of_path(const char *path, const json_t *config, struct mt_model **model, struct mt_error *error)
{
    int r = mt_model_from_config(config, model, error);
    return r < 0 ? mt_error_prefix(error, "%s", path), r : 0;
}

int mt_model_open(const char *path, struct mt_model **model, struct mt_error *error)
{
    *model = NULL;
    mt_autojson json_t *config = NULL;
    int r = mt_model_read_config(path, &config, error);
    return r < 0 ? r : mt_model_of_path(path, config, model, error);
}
