-- The words of each entry: an index alone, without a second copy of the text.
CREATE VIRTUAL TABLE search_words USING fts5 (
    words, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 0'
);
CREATE TRIGGER search_forgets AFTER DELETE ON search_entries BEGIN
    DELETE FROM search_words WHERE rowid = old.id;
END;
