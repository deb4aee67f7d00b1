-- The transcript of a parked agent, with which another server wakes it. It goes with its chat.

CREATE TABLE parked_transcripts (
    chat {int} NOT NULL PRIMARY KEY REFERENCES chat_streams(id),
    data {bytes} NOT NULL -- as the engine has compressed it
) {table};
