-- The images of a prompt. Its text says of each that it is there.

CREATE TABLE chat_images (
    chat      {int} NOT NULL REFERENCES chat_streams(id),
    n         {int} NOT NULL, -- from 0
    mime_type TEXT NOT NULL,
    data      TEXT NOT NULL, -- base64
    PRIMARY KEY (chat, n)
) {keyed};
