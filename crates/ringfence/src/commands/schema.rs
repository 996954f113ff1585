//! The policy language as JSON Schema, for editors.
//!
//! It is made from the description that the reader itself uses, so the two cannot differ. A schema knows less than the
//! reader: what a pattern or a host may look like is said in words there, and checked by `ringfence check`.

use ringfence_surface::policy::shape::{Schema, SchemaKey};
use serde_json::{Map, Value, json};

/// The dialect that is written.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A description of the policy language, as JSON Schema.
pub(crate) fn schema_json(schema: &Schema) -> Value {
    let mut root = Map::new();
    root.insert("$schema".to_owned(), json!(DIALECT));
    root.insert("title".to_owned(), json!("ringfence policy"));
    root.extend(members(schema));
    Value::Object(root)
}

/// What a value must look like, as the members of a schema object.
fn members(schema: &Schema) -> Map<String, Value> {
    let value = match schema {
        Schema::String { about } => {
            let mut string = object(json!({ "type": "string" }));
            describe(&mut string, about);
            return string;
        }
        Schema::Words { words } => json!({ "type": "string", "enum": words }),
        Schema::Integer { least, most } if least == most => json!({ "const": least }),
        Schema::Integer { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Schema::Boolean => json!({ "type": "boolean" }),
        Schema::List { of } => json!({ "type": "array", "items": members(of) }),
        Schema::Named { of } => json!({ "type": "object", "additionalProperties": members(of) }),
        Schema::Table { about, keys } => return table(about, keys),
    };
    object(value)
}

fn table(about: &str, keys: &[SchemaKey]) -> Map<String, Value> {
    let required: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let mut table = object(json!({ "type": "object", "additionalProperties": false, "properties": properties }));
    if !required.is_empty() {
        table.insert("required".to_owned(), json!(required));
    }
    describe(&mut table, about);
    table
}

/// What the key is for, then what its text may look like. Of a table the key says enough.
fn property(key: &SchemaKey) -> Value {
    let mut property = members(&key.schema);
    let form = match key.schema {
        Schema::String { about } => about,
        _ => "",
    };
    describe(&mut property, &format!("{} {}", key.about.trim(), form.trim()));
    Value::Object(property)
}

/// Sets the description; documentation comments carry a space in front of each line.
fn describe(schema: &mut Map<String, Value>, about: &str) {
    let about = about.trim();
    if !about.is_empty() {
        schema.insert("description".to_owned(), json!(about));
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use ringfence_surface::policy::PolicyFile;

    use super::*;

    #[track_caller]
    fn check(schema: &Schema, expected: Value) {
        assert_eq!(Value::Object(members(schema)), expected);
    }

    #[test]
    fn every_kind_of_value() {
        check(&Schema::String { about: " A path." }, json!({ "type": "string", "description": "A path." }));
        check(&Schema::String { about: "" }, json!({ "type": "string" }));
        check(&Schema::Words { words: vec!["ro", "rw"] }, json!({ "type": "string", "enum": ["ro", "rw"] }));
        check(&Schema::Integer { least: 1, most: 1 }, json!({ "const": 1 }));
        check(
            &Schema::Integer { least: 1, most: 65_535 },
            json!({ "type": "integer", "minimum": 1, "maximum": 65_535 }),
        );
        check(&Schema::Boolean, json!({ "type": "boolean" }));
        let list = Schema::List { of: Box::new(Schema::Boolean) };
        check(&list, json!({ "type": "array", "items": { "type": "boolean" } }));
        let named = Schema::Named { of: Box::new(list) };
        let inner = json!({ "type": "array", "items": { "type": "boolean" } });
        check(&named, json!({ "type": "object", "additionalProperties": inner }));
    }

    #[test]
    fn a_table_takes_its_own_keys_only() {
        let key =
            |name, about, required| SchemaKey { name, about, required, schema: Schema::String { about: "A path." } };
        let keys = vec![key("src", " On the host.", true), key("note", "", false)];
        let source = json!({ "type": "string", "description": "On the host. A path." });
        let note = json!({ "type": "string", "description": "A path." });
        check(
            &Schema::Table { about: " A mount.", keys },
            json!({
                "type": "object",
                "description": "A mount.",
                "additionalProperties": false,
                "required": ["src"],
                "properties": { "src": source, "note": note },
            }),
        );
        check(
            &Schema::Table { about: "", keys: Vec::new() },
            json!({ "type": "object", "additionalProperties": false, "properties": {} }),
        );
    }

    /// The part of the schema at a JSON pointer.
    #[track_caller]
    fn part(pointer: &str) -> Value {
        let schema = schema_json(&PolicyFile::schema());
        schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is not in {schema:#}")).clone()
    }

    #[test]
    fn the_policy_language() {
        assert_eq!(part("/$schema"), DIALECT);
        assert_eq!(part("/title"), "ringfence policy");
        assert_eq!(part("/additionalProperties"), false);
        assert_eq!(part("/required"), json!(["version"]));
        assert_eq!(part("/properties/version/const"), 1);
        assert_eq!(part("/properties/files/properties/view/enum"), json!(["surface", "host"]));
        assert_eq!(part("/properties/network/properties/host_ports/items/maximum"), 65_535);
        assert_eq!(part("/properties/persona/additionalProperties/additionalProperties"), false);
        assert_eq!(part("/properties/workspace/properties/repo/items/required"), json!(["name", "path"]));
        let container = "/properties/agent/additionalProperties/properties/container/properties";
        assert_eq!(part(&format!("{container}/surface_mode/enum")), json!(["additive", "exclusive"]));
    }

    #[test]
    fn every_key_of_the_policy_language_is_described() {
        fn undescribed(at: &str, schema: &Value, found: &mut Vec<String>) {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let at = format!("{at}.{name}");
                if property["description"].as_str().is_none_or(|text| text.trim() != text || !text.ends_with('.')) {
                    found.push(at.clone());
                }
                for inner in [property, &property["items"], &property["additionalProperties"]] {
                    undescribed(&at, inner, found);
                }
            }
        }
        let mut found = Vec::new();
        undescribed("", &schema_json(&PolicyFile::schema()), &mut found);
        assert!(found.is_empty(), "{found:?}");
    }
}
