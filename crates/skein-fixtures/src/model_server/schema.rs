//! The smallest value of a JSON schema, for requests that want JSON.

use serde_json::{Map, Value};

/// A deeper schema is assumed to refer to itself.
const DEEPEST: usize = 16;

pub(crate) fn value(schema: &Value) -> Value {
    fit(schema, DEEPEST)
}

fn fit(schema: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    if let Some(constant) = schema.get("const") {
        return constant.clone();
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema[word].as_array().and_then(|all| all.first()) {
            return fit(first, depth - 1);
        }
    }
    // Gemini writes types in capitals.
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kind.unwrap_or("object").to_lowercase().as_str() {
        "string" => "scripted".into(),
        // Scores often begin at 1 without saying so.
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(1.into()),
        "boolean" => false.into(),
        "array" => Value::Array(vec![]),
        "null" => Value::Null,
        _ => object(schema, depth),
    }
}

fn object(schema: &Value, depth: usize) -> Value {
    let mut object = Map::new();
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            object.insert(name.clone(), fit(property, depth - 1));
        }
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_router_gets_a_choice_and_a_reason() {
        let schema = json!({
            "type": "OBJECT",
            "properties": {
                "reasoning": { "type": "string" },
                "model_choice": { "type": "string", "enum": ["flash", "pro"] },
                "complexity": { "type": "integer" }, "share": { "type": "NUMBER", "minimum": 0 },
            },
            "required": ["reasoning", "model_choice"],
        });
        assert_eq!(
            value(&schema),
            json!({ "reasoning": "scripted", "model_choice": "flash", "complexity": 1, "share": 0 })
        );
    }
}
