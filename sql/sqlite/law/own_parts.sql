-- Tables, indexes and guard triggers of layer 1, asked of a database made by the migrations alone. Parameters: none.
-- Rows: type, name, CREATE statement. Locks: none.
SELECT type, name, sql FROM sqlite_schema WHERE name LIKE 'termgate!_%' ESCAPE '!' AND sql IS NOT NULL ORDER BY name
