/* openapi.c: the description, built at each request from the same table that answers requests; it is asked
 * for rarely. */
#include "api/openapi.h"

#include "api/openapi_schemas.h"
#include "api/problem.h"
#include "api/router.h"
#include "api/server.h"
#include "core/base/cleanup.h"
#include "core/job/job.h"

#include <stdio.h>
#include <string.h>

static json_t *schema_reference(const char *name)
{
    char reference[96];
    snprintf(reference, sizeof reference, "#/components/schemas/%s", name);
    return json_pack("{s:s}", "$ref", reference);
}

static json_t *parameter_schema(const struct mt_route_parameter *parameter)
{
    if (parameter->type == MT_PARAMETER_INTEGER)
        return json_pack("{s:s, s:I, s:I, s:I}", "type", "integer", "minimum", (json_int_t)parameter->minimum,
                         "maximum", (json_int_t)parameter->maximum, "default",
                         (json_int_t)parameter->standard);
    if (parameter->type == MT_PARAMETER_SWITCH)
        return json_pack("{s:[s, s, s, s]}", "enum", "0", "1", "false", "true");
    if (!parameter->words)
        return json_pack("{s:s}", "type", "string");
    json_t *words = json_array();
    for (size_t i = 0; parameter->words[i]; i++)
        json_array_append_new(words, json_string(parameter->words[i]));
    return json_pack("{s:s, s:o}", "type", "string", "enum", words);
}

static json_t *parameters(const struct mt_route *route)
{
    json_t *list = json_array();
    if (strstr(route->pattern, "{id}"))
        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:o}", "name", "id", "in", "path", "required",
                                              1, "schema", schema_reference("Id")));
    for (const struct mt_route_parameter *known = route->parameters; known && known->name; known++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:o}", "name", known->name, "in", "query",
                                        "description", known->summary, "schema", parameter_schema(known)));
    if (route->flags & MT_ROUTE_IDEMPOTENT)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:{s:s, s:i, s:i}}", "name", "Idempotency-Key",
                                              "in", "header", "description",
                                              "the same key with the same body gives the first answer again",
                                              "schema", "type", "string", "minLength", 1, "maxLength", 255));
    return list;
}

/* Adds one answer; a second media type of the same status joins the first. */
static void add_answer(json_t *responses, unsigned status, const char *schema, const char *type,
                       const char *summary)
{
    char code[16];
    snprintf(code, sizeof code, "%u", status);
    json_t *response = json_object_get(responses, code);
    if (!response) {
        response = json_pack("{s:s}", "description", summary);
        json_object_set_new(responses, code, response);
    }
    if (!schema && !type)
        return;
    const char *media = type ? type : status >= 400 ? "application/problem+json" : "application/json";
    json_t *content = json_object_get(response, "content");
    if (!content) {
        content = json_object();
        json_object_set_new(response, "content", content);
    }
    json_object_set_new(content, media,
                        json_pack("{s:o}", "schema",
                                  schema ? schema_reference(schema) : json_pack("{s:s}", "type", "string")));
}

static json_t *responses(const struct mt_route *route)
{
    json_t *all = json_object();
    bool writes = strcmp(route->method, "GET") != 0, has_id = strstr(route->pattern, "{id}") != NULL;
    for (const struct mt_route_answer *answer = route->answers; answer->status != 0; answer++)
        add_answer(all, answer->status, answer->schema, answer->type, answer->summary);
    add_answer(all, 400, "Problem", NULL, "malformed: the query, the JSON, or a header");
    if (!(route->flags & MT_ROUTE_OPEN))
        add_answer(all, 401, "Problem", NULL, "the bearer token is missing or wrong");
    if (writes)
        add_answer(all, 403, "Problem", NULL, "a foreign Origin");
    if (has_id)
        add_answer(all, 404, "Problem", NULL, "no such job");
    if (route->flags & (MT_ROUTE_BODY | MT_ROUTE_NO_BODY))
        add_answer(all, 413, "Problem", NULL, "the body has more than 1 MiB");
    if (route->flags & MT_ROUTE_BODY) {
        add_answer(all, 415, "Problem", NULL, "the body is not declared as JSON");
        add_answer(all, 422, "Problem", NULL, "well-formed but wrong; errors lists everything");
    }
    add_answer(all, 421, "Problem", NULL, "a foreign Host");
    add_answer(all, 500, "Problem", NULL, "the daemon could not do it");
    add_answer(all, 503, "Problem", NULL, "stopping, or too much under way; Retry-After says when");
    return all;
}

/* "getJobsIdMetrics" */
static json_t *operation_id(const struct mt_route *route)
{
    char name[96];
    size_t length = 0;
    bool upper = false;
    for (const char *c = route->method; *c; c++)
        name[length++] = (char)(*c | 0x20);
    for (const char *c = route->pattern; *c && length < sizeof name - 1; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9');
        if (letter)
            name[length++] = (char)(upper && *c >= 'a' ? *c - 32 : *c);
        upper = !letter;
    }
    if (strcmp(route->pattern, "/") == 0)
        length += (size_t)snprintf(name + length, sizeof name - length, "Page");
    return json_stringn(name, length);
}

static json_t *operation(const struct mt_route *route)
{
    json_t *made = json_pack("{s:o, s:s, s:o, s:o}", "operationId", operation_id(route), "summary",
                             route->summary, "parameters", parameters(route), "responses", responses(route));
    if (route->flags & MT_ROUTE_OPEN)
        json_object_set_new(made, "security", json_array());
    if (route->flags & (MT_ROUTE_BODY | MT_ROUTE_NO_BODY)) {
        bool needed = (route->flags & MT_ROUTE_BODY) != 0;
        json_object_set_new(made, "requestBody",
                            json_pack("{s:b, s:{s:{s:o}}}", "required", needed, "content", "application/json",
                                      "schema", schema_reference(needed ? route->body_schema : "Empty")));
    }
    return made;
}

static json_t *paths(void)
{
    json_t *all = json_object();
    size_t count;
    const struct mt_route *routes = mt_routes(&count);
    for (size_t i = 0; i < count; i++) {
        if (routes[i].flags & MT_ROUTE_NOT_BUILT)
            continue;
        json_t *path = json_object_get(all, routes[i].pattern);
        if (!path) {
            path = json_object();
            json_object_set_new(all, routes[i].pattern, path);
        }
        char method[16];
        size_t length = 0;
        for (; length < sizeof method - 1 && routes[i].method[length]; length++)
            method[length] = (char)(routes[i].method[length] | 0x20);
        method[length] = '\0';
        json_object_set_new(path, method, operation(&routes[i]));
    }
    return all;
}

/* All schemas by name; NULL when out of memory. */
static json_t *component_schemas(void)
{
    mt_autofree char *text = strdup(mt_openapi_schemas);
    for (char *c = text; c && *c; c++) {
        if (*c == '\'')
            *c = '"';
    }
    json_t *schemas = text ? json_loads(text, 0, NULL) : NULL;
    json_object_set_new(schemas, "JobDocument", mt_job_schema());
    return schemas;
}

void mt_openapi(struct mt_request *request)
{
    struct mt_api *api = request->listener->api;
    mt_autojson json_t *schemas = component_schemas();
    mt_autojson json_t *document = json_pack(
        "{s:s, s:{s:s, s:s, s:s, s:{s:s, s:s}}, s:[{s:s}], s:o, s:{s:O, s:{s:{s:s, s:s}}}}", "openapi",
        "3.1.0", "info", "title", "MegaTrain", "version", api->version, "description",
        "Queue, watch and steer training jobs. Errors are problem documents (RFC 9457).", "license", "name",
        "Apache-2.0", "identifier", "Apache-2.0", "servers", "url", "/", "paths", paths(), "components",
        "schemas", schemas, "securitySchemes", "bearer", "type", "http", "scheme", "bearer");
    /* Without a token configured, none is asked for. */
    if (document && api->token)
        json_object_set_new(document, "security", json_pack("[{s:[]}]", "bearer"));
    mt_reply_json(request, 200, document);
}
