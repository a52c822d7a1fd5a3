"""Fields that are declared before there are records: by name, or by a schema. Pure."""
