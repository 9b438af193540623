-- What a table of nested events has besides the flat one's columns.
ALTER TABLE {table:Identifier}
    ADD COLUMN items Array(Tuple(sku String, qty UInt16, price Decimal(18, 2))) AFTER url,
    ADD COLUMN attrs Map(String, String) AFTER items
