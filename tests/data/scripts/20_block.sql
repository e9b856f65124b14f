BEGIN
  DECLARE n INT DEFAULT 0;
  WHILE n < 3 DO SET n = n + 1; END WHILE;
  SELECT n, CASE WHEN n = 3 THEN 'three' END;
END;
SELECT sum(s.qty) FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE t.city = 'Ulm';
