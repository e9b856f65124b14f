BEGIN
  IF (SELECT count(*) FROM items) > 5 THEN SELECT 'many; items'; ELSE SELECT 'few'; END IF;
END;
SELECT 'after';
