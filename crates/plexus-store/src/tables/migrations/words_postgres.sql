-- The words of each entry: an index alone, without a second copy of the text.
CREATE TABLE search_words (
    id    BIGINT PRIMARY KEY REFERENCES search_entries(id) ON DELETE CASCADE,
    words TSVECTOR NOT NULL
);
CREATE INDEX search_words_by_word ON search_words USING gin (words);
