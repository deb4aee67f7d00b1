-- Why only a person may allow an approval, in words; NULL where a rule, a mode or a session may too.

ALTER TABLE loopback_approvals ADD COLUMN person_only TEXT;
