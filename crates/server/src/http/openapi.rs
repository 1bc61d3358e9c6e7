//! The `OpenAPI` document (3.1), written from the table of endpoints and the types of their answers.

use config::Role;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::endpoint::Endpoint;

/// The document of these endpoints.
pub(super) fn document(endpoints: &[Endpoint]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in endpoints {
        let answer = (endpoint.answer)(&mut generator).to_value();
        let methods = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        methods[endpoint.method.to_lowercase()] = operation(endpoint, &answer);
    }
    let schemas: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Quoteway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Administration of a Quoteway process. Roles: viewers may look, operators may act.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "password": { "type": "http", "scheme": "basic" } },
        },
    })
}

fn operation(endpoint: &Endpoint, answer: &Value) -> Value {
    let mut parameters: Vec<Value> = Vec::new();
    for part in endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')) {
        let name = part.trim_end_matches('}');
        let about = if name == "id" {
            "The id that a list has for it: THREAD.NUMBER."
        } else {
            "Its name; percent signs stand for what a path cannot have."
        };
        parameters.push(json!({ "name": name, "in": "path", "required": true, "description": about, "schema": { "type": "string" } }));
    }
    for (name, about) in endpoint.query {
        parameters.push(json!({ "name": name, "in": "query", "description": about, "schema": { "type": "string" } }));
    }
    let kind = if endpoint.path == "/metrics" { "text/plain" } else { "application/json" };
    let fault = json!({ "description": "Why not.", "content": { "application/json": { "schema": {
        "type": "object", "properties": { "error": { "type": "string" } }, "required": ["error"] } } } });
    let words: Vec<&str> = endpoint.path.split('/').filter(|word| !word.is_empty() && !word.starts_with('{')).collect();
    let mut operation = json!({
        "operationId": format!("{}_{}", endpoint.method.to_lowercase(), words.join("_").replace(['.', '-'], "_")),
        "summary": endpoint.summary,
        "description": format!("Role: {}.", endpoint.role.name()),
        "parameters": parameters,
        "responses": {
            "200": { "description": "The answer.", "content": { kind: { "schema": answer } } },
            "default": fault,
        },
    });
    for part in endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')) {
        let (id, name) = (operation["operationId"].as_str().unwrap_or_default(), part.trim_end_matches('}'));
        operation["operationId"] = json!(format!("{id}_by_{name}"));
    }
    if endpoint.role != Role::Anybody {
        operation["security"] = json!([{ "password": [] }, {}]);
    }
    if !endpoint.body.is_empty() {
        operation["requestBody"] = body(endpoint);
    }
    operation
}

fn body(endpoint: &Endpoint) -> Value {
    let members: Map<String, Value> = endpoint
        .body
        .iter()
        .map(|(name, about)| (name.trim_end_matches('?').to_owned(), json!({ "type": "string", "description": about })))
        .collect();
    let required: Vec<&str> = endpoint.body.iter().map(|(name, _)| *name).filter(|name| !name.ends_with('?')).collect();
    json!({ "required": true, "content": { "application/json": { "schema": {
        "type": "object", "properties": members, "required": required, "additionalProperties": false } } } })
}

#[cfg(test)]
mod tests {
    use super::super::api::ENDPOINTS;
    use super::*;

    /// Every `$ref` of a document.
    fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn the_document_names_every_endpoint_and_nothing_that_is_not_there() {
        let document = document(ENDPOINTS);
        let mut ids = Vec::new();
        for endpoint in ENDPOINTS {
            let operation = &document["paths"][endpoint.path][endpoint.method.to_lowercase()];
            assert_eq!(operation["summary"], endpoint.summary);
            ids.push(operation["operationId"].as_str().expect("an id"));
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "ids are unique");
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("within the document");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
