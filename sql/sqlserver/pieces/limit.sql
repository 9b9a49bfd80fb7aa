-- The largest payload that the setting allows: read before many pieces are sent in vain.
SELECT s.value FROM @schema@.setting_list s WHERE s.name = N'payload_bytes_max'
