(* Page 9: Any sparse pattern in logarithmic dimension (Propositions 9.8 and 9.15) *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
Require Import random_projections.
Import Mean.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Proposition 9.15 *)
Module Tiles.
(* Proposition 9.15 *)
Section Tiles.
(* cut the columns into tiles: tile j is the tile of column j *)
Variables (F : realFieldType) (n : nat) (tiles : finType) (tile : 'I_n -> tiles) (S : {set 'I_n})
  (L : 'I_n -> F) (ex : F -> F) (r : F).
(* Proposition 9.15 (Tiles): the sum over the zeros, by tiles. *)
Theorem odds_by_tiles : \sum_(t : tiles) \sum_(j | (j \notin S) && (tile j == t)) ex (L j - r) =
  \sum_(j | j \notin S) ex (L j - r).
Proof. by rewrite [RHS](partition_big tile predT). Qed.
(* the largest logit of a set of columns *)
(* The largest logit of a set of columns. *)
Definition largest (A : pred 'I_n) m := (exists2 j, A j & L j = m) /\ forall j, A j -> L j <= m.
(* The largest logit on the zeros is the largest of those of the tiles. *)
Theorem gap_by_tiles (mt : tiles -> F) m : (forall t, (exists2 j, j \notin S & tile j = t) ->
  largest (fun j => (j \notin S) && (tile j == t)) (mt t)) ->
  (exists2 t, exists2 j, j \notin S & tile j = t & mt t = m) ->
  (forall t, (exists2 j, j \notin S & tile j = t) -> mt t <= m) -> largest (fun j => j \notin S)
    m.
Proof.
move=> lt [t ne mtm] up; have [[j /andP[jS _] Lj] _] := lt t ne; split; first by exists j => //;
  rewrite Lj.
move=> l lS; have el : exists2 j, j \notin S & tile j = tile l by exists l.
apply: le_trans (up _ el); have [_ h] := lt _ el; by apply: h; rewrite lS eqxx.
Qed.
End Tiles.
(* an integer that a 32-bit float holds: 24 bits times a power of 2 *)
Section Floats.
Variable prec : nat.
(* An integer that a float with prec bits holds (prec = 24 for 32-bit floats). *)
Definition float32 (z : int) := exists2 m : int, `|m| < 2%:Z ^+ prec & exists e : nat, z = m *
  2%:Z ^+ e.
Lemma small z : `|z| < 2%:Z ^+ prec -> float32 z.
Proof. by move=> z24; exists z => //; exists 0%N; rewrite expr0 mulr1. Qed.
Section Integer.
Variables (d k : nat) (kd : (k * d < 2 ^ prec)%N).
Variables (q : 'I_d -> int).
Hypotheses qk : forall c, `|q c| <= k%:Z.
Definition logit (x : 'I_d -> int) : int := \sum_c q c * x c.
Definition signs (x : 'I_d -> int) := forall c, x c = 1 \/ x c = -1.
Lemma kd24 : (k * d)%:Z < 2%:Z ^+ prec.
Proof. by rewrite -[2%:Z]natz -natrX -natz ltr_nat. Qed.
Lemma part x (A : pred 'I_d) : signs x -> `|\sum_(c | A c) q c * x c| <= (k * d)%:Z.
Proof.
move=> sx; apply: le_trans (ler_norm_sum _ _ _) _.
apply: (@le_trans _ _ (\sum_(c | A c) k%:Z)).
  by apply: ler_sum => c _; rewrite normrM; case: (sx c) => ->; rewrite ?normrN normr1 mulr1.
rewrite sumr_const -mulr_natr PoszM natz ler_wpmul2l // lez_nat.
by apply: leq_trans (max_card _) _; rewrite card_ord.
Qed.
(* every partial sum, in whatever order, is an integer that the float holds *)
(* Every partial sum of a logit is held exactly. *)
Theorem partial_sums x A : signs x -> float32 (\sum_(c | A c) q c * x c).
Proof. by move=> sx; apply: small; apply: le_lt_trans (part A sx) kd24. Qed.
(* Logits have size at most k d. *)
Theorem logit_size x : signs x -> `|logit x| <= (k * d)%:Z.
Proof. exact: part. Qed.
(* Every gap is held exactly: it is even, and half of it is small. *)
Theorem gap_exact x y : signs x -> signs y -> float32 (logit x - logit y).
Proof.
move=> sx sy.
pose h := \sum_c (if x c == y c then 0 else q c * x c).
have e : logit x - logit y = h * 2%:Z.
  rewrite /logit -sumrB mulr_suml; apply: eq_bigr => c _; case: eqP => [->|]; first by rewrite
    subrr mul0r.
  by case: (sx c) => ->; case: (sy c) => -> // _; rewrite -mulrBr ?opprK -mulrA.
exists h; last by exists 1%N; rewrite expr1.
rewrite -(@ltr_pmul2r _ (2%:Z)) // -{1}[2%:Z]/(`|2%:Z|) -normrM -e.
apply: le_lt_trans (ler_norm_sub _ _) _; rewrite -[2%:Z]/(1 + 1 : int) mulrDr mulr1; apply:
  ltr_add; apply: le_lt_trans kd24; exact: logit_size.
Qed.
End Integer.

End Floats.
End Tiles.

(* Proposition 9.8 *)
Module Noise.
(* noise: R here is d x n: the projection R^T *)
Section Noise.
Variables (F : realFieldType) (Om : Type) (E : (Om -> F) -> F) (d n : nat) (R : Om -> 'M[F]_(d,
  n)) (kappa : F).
Hypotheses (ME : is_mean E) (d0 : (0 < d)%N) (ind : independent E R) (mom : moments E R kappa).
(* K = R and Q = B R; R here is the transpose, d x n, with variance 1/d. *)
Definition keys o := (R o)^T.
Definition logits m (B : 'M[F]_(m, n)) o := (B *m keys o) *m (keys o)^T.
Lemma logitE m (B : 'M[F]_(m, n)) o i j : logits B o i j = \sum_l B i l * G R o l j.
Proof. by rewrite /logits /keys trmxK -mulmxA mxE. Qed.
(* Proposition 9.8 (Mean and noise): the mean of Q K^T is B. *)
Theorem mean_logits m (B : 'M[F]_(m, n)) i j : E (fun o => logits B o i j) = B i j.
Proof.
rewrite (Eext ME (g := fun o => \sum_l B i l * G R o l j)) => [|o]; last exact: logitE.
rewrite (Esum ME) (bigD1 j) //= (EZ ME) (second ME d0 ind mom) eqxx mulr1 big1 ?addr0 // => l
  /negbTE lj.
by rewrite (EZ ME) (second ME d0 ind mom) lj mulr0.
Qed.
(* Proposition 9.8: the logit of a zero has variance |B_i|^2 / d, whatever kappa. *)
Theorem noise m (B : 'M[F]_(m, n)) i j : B i j = 0 ->
  E (fun o => (logits B o i j - B i j) ^+ 2) = (\sum_l B i l ^+ 2) / d%:R.
Proof.
move=> Bij; have := entry ME d0 ind mom (B i) (fun l => (l == j)%:R).
have s1 (f : 'I_n -> F) : \sum_l f l * (l == j)%:R = f j.
  by rewrite (bigD1 j) //= eqxx mulr1 big1 ?addr0 // => l /negbTE ->; rewrite mulr0.
have sq (l : 'I_n) : (l == j)%:R ^+ 2 = (l == j)%:R :> F by case: (l == j); rewrite ?expr1n
  ?expr0n.
rewrite /=; have -> : \sum_l B i l ^+ 2 * (l == j)%:R ^+ 2 = 0.
  by rewrite (eq_bigr (fun l => B i l ^+ 2 * (l == j)%:R)) => [|l _]; rewrite ?s1 ?sq // Bij
    expr0n.
have -> : \sum_(l < n) (l == j)%:R ^+ 2 = 1 :> F.
  by rewrite (eq_bigr (fun l => 1 * (l == j)%:R)) => [|l _]; rewrite ?s1 ?sq ?mul1r.
rewrite !s1 Bij expr0n addr0.
rewrite mulr0 addr0 mulr1 => e; rewrite [RHS]mulrC -e; apply: (Eext ME) => o; congr ((_ - _) ^+
  2).
rewrite logitE; apply: eq_bigr => l _; rewrite (bigD1 j) //= eqxx mulr1 big1 ?addr0 // => l'
  /negbTE lj.
by rewrite lj mulr0 mul0r.
Qed.
End Noise.
End Noise.
