(* Page 9: Any sparse pattern in logarithmic dimension (Theorem 9.4 for k = 1 and signs) *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import exponential logarithmic_dimension logarithmic_dimension_3.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Import Criteria.

(* ---- Two keys of random signs hardly lean on each other ---- *)
Section Lean.
Variables (F : rcfType) (e : F -> F).
Hypothesis eE : exponential e.
(* The sign of one coordinate turned: the same mean. *)
Definition turn n (j : 'I_n) (v : {ffun 'I_n -> bool}) : {ffun 'I_n -> bool} :=
  [ffun i => v i (+) (i == j)].
Lemma turnK n (j : 'I_n) : involutive (turn j).
Proof. by move=> v; apply/ffunP => i; rewrite !ffunE -addbA addbb addbF. Qed.
Lemma mean_turn n (j : 'I_n) (f : {ffun 'I_n -> bool} -> F) : mean (fun v => f (turn j v)) = mean f.
Proof. by rewrite /mean; congr (_ / _); rewrite [RHS](reindex_inj (inv_inj (turnK j))). Qed.
Lemma sgn_turn n (i j : 'I_n) v : sgn F (turn j v i) = if i == j then - sgn F (v i) else sgn F (v i).
Proof. by rewrite ffunE /sgn; case: (i == j); case: (v i); rewrite /= ?opprK. Qed.
(* E e^(h sigma sigma') = cosh h <= e^(h^2/2) *)
Lemma product_moment n (i j : 'I_n) h : i != j ->
  mean (fun v => e (h * (sgn F (v i) * sgn F (v j)))) <= e (h ^+ 2 / 2%:R).
Proof.
move=> ij; set f := fun v : {ffun 'I_n -> bool} => e (h * (sgn F (v i) * sgn F (v j))).
have two : mean f + mean f = mean (fun v : {ffun 'I_n -> bool} => e h + e (- h)).
  rewrite -{2}(mean_turn i) -meanD; apply: mean_ext => v.
  rewrite /f !sgn_turn eqxx [j == i]eq_sym (negbTE ij) /sgn.
  by case: (v i); case: (v j); rewrite ?(mulrNN, mulNr, mulrN, mulr1, mul1r, opprK) // addrC.
have -> : mean f = (mean f + mean f) / 2%:R by field.
by rewrite two mean_cst; apply: cosh_le.
Qed.
(* (9.5) for two keys: the product of rows i and j of R is above 1/2 with a chance of at most e^(-d/8). *)
Lemma lean n d (i j : 'I_n) : (0 < d)%N -> i != j ->
  chance F [set B : 'M[bool]_(n, d) | 2%:R^-1 < (signs F B *m (signs F B)^T) i j] <=
  e (- (d%:R * 8%:R^-1)).
Proof.
move=> d0 ij; pose h : F := 2%:R^-1.
pose g (v : {ffun 'I_n -> bool}) : F := h * (sgn F (v i) * sgn F (v j)) - h / 2%:R.
apply: (chernoff eE (g := g)) => [|B].
  rewrite (mean_ext (g := fun v => e (- (h / 2%:R)) * e (h * (sgn F (v i) * sgn F (v j))))).
    rewrite meanZ; apply: le_trans (ler_wpmul2l (ltW (exp_gt0 eE _)) (product_moment h ij)) _.
    rewrite -(expD eE) (exp_le eE) le_eqVlt; apply/orP; left; apply/eqP; rewrite /h; by field.
  by move=> v; rewrite /g addrC (expD eE).
rewrite inE sumrB sumr_const card_ord => big; rewrite subr_ge0.
have -> : \sum_c h * (sgn F (column B c i) * sgn F (column B c j)) =
    d%:R * h * (signs F B *m (signs F B)^T) i j.
  rewrite mxE mulr_sumr; apply: eq_bigr => c _; rewrite !mxE !ffunE.
  have dd : d%:R = Num.sqrt d%:R ^+ 2 :> F by rewrite sqr_sqrtr ?ler0n.
  have s0 : Num.sqrt d%:R != 0 :> F by rewrite sqrtr_eq0 -ltNge ltr0n.
  rewrite [X in X * h * _]dd; move: (Num.sqrt _) s0 (sgn F (B i c)) (sgn F (B j c)) => s s0 x y.
  by field.
rewrite -[_ *+ d]mulr_natl mulrA; apply: ler_wpmul2l; last exact: ltW.
by rewrite mulr_ge0 ?ler0n // invr_ge0 ler0n.
Qed.
(* All inner products of two different keys are at most 1/2, but for a chance of n^2 e^(-d/8). *)
Definition apart n d (R : 'M[F]_(n, d)) := [forall i, forall j,
  (i != j) ==> ((R *m R^T) i j <= 2%:R^-1)].
Lemma few_lean n d : (0 < d)%N -> chance F [set B : 'M[bool]_(n, d) | ~~ apart (signs F B)] <=
  n%:R ^+ 2 * e (- (d%:R * 8%:R^-1)).
Proof.
move=> d0; pose A (p : 'I_n * 'I_n) := [set B : 'M[bool]_(n, d) |
  (p.1 != p.2) && (2%:R^-1 < (signs F B *m (signs F B)^T) p.1 p.2)].
pose U : {set 'M[bool]_(n, d)} := \bigcup_p A p.
apply: le_trans (_ : chance F U <= _).
  apply: chanceS; apply/subsetP => B; rewrite inE negb_forall => /existsP[i].
  rewrite negb_forall => /existsP[j]; rewrite negb_imply -ltNge => bad.
  by apply/bigcupP; exists (i, j) => //; rewrite inE.
apply: le_trans (chance_bigcup _ _ _) _.
have one p : chance F (A p) <= e (- (d%:R * 8%:R^-1)).
  have [pp|pp] := eqVneq p.1 p.2.
    apply: le_trans (_ : chance F (set0 : {set 'M[bool]_(n, d)}) <= _).
      by apply: chanceS; apply/subsetP => B; rewrite inE pp eqxx.
    by rewrite /chance cards0 mul0r ltW ?(exp_gt0 eE).
  apply: le_trans (lean d0 pp); apply: chanceS; apply/subsetP => B; rewrite !inE.
  by case/andP.
apply: le_trans (ler_sum _ (fun p _ => one p)) _.
by rewrite sumr_const card_prod card_ord -[_ *+ (n * n)]mulr_natl natrM expr2.
Qed.
Lemma unit_keys n d (B : 'M[bool]_(n, d)) i : (0 < d)%N -> (signs F B *m (signs F B)^T) i i = 1.
Proof.
move=> d0; have dd : d%:R != 0 :> F by rewrite pnatr_eq0 -lt0n.
rewrite mxE (eq_bigr (fun=> d%:R^-1)) => [|c _].
  by rewrite sumr_const card_ord -[_ *+ d]mulr_natl divff.
rewrite !mxE -expr2 expr_div_n sqr_sqrtr ?ler0n // /sgn.
by case: (B i c); rewrite ?sqrrN expr1n mul1r.
Qed.
End Lean.

(* ---- Theorem 9.4, k = 1 ---- *)
Section One.
Variables (F : rcfType) (e l : F -> F).
Hypotheses (eE : exponential e) (lE : logarithm e l).
Variables (n d : nat) (A : 'M[F]_n) (want : 'I_n -> 'I_n) (eps1 eps2 delta : F).
Hypotheses (n0 : (0 < n)%N) (e1 : 0 < eps1 < 1) (e2 : 0 < eps2 < 1) (delta1 : 0 < delta < 1).
(* A pattern with one wanted entry, that is a positive one, in each row, in column want i *)
Hypothesis one : forall i, S A i = [set want i].
Definition softmax (L : 'M[F]_n) : 'M[F]_n := \matrix_(i, j) (e (L i j) / \sum_m e (L i m)).
(* T, the level s = 2T, and (9.3) for one wanted entry: q_i = s k_want(i), as the key has length one. *)
Definition T := l (eps1^-1).
Definition query (R : 'M[F]_(n, d)) : 'M[F]_(n, d) := \matrix_(i, c) (2%:R * T * R (want i) c).
Definition attention (R : 'M[F]_(n, d)) := softmax (query R *m R^T).
Lemma logitE R i j : (query R *m R^T) i j = 2%:R * T * (R *m R^T) (want i) j.
Proof. by rewrite !mxE mulr_sumr; apply: eq_bigr => c _; rewrite !mxE mulrA. Qed.
Lemma apart_follows B : (0 < d)%N -> apart (signs F B) -> follows eps1 eps2 A (attention (signs F B)).
Proof.
move=> d0 ap; set R := signs F B; have e10 : 0 < eps1 by case/andP: e1.
have T0 : 0 <= T.
  rewrite /T -(ln1 eE lE) -(exp_le eE) !(lnK lE) ?ltr01 ?invr_gt0 //.
  by rewrite invf_ge1 //; case/andP: e1 => _ /ltW.
have Z i : 0 < \sum_m e ((query R *m R^T) i m).
  rewrite (bigD1 i) //=; apply: ltr_paddr; last exact: exp_gt0.
  by apply: sumr_ge0 => m _; exact: ltW (exp_gt0 eE _).
have ME i j : attention R i j = e ((query R *m R^T) i j) / \sum_m e ((query R *m R^T) i m).
  by rewrite mxE.
have M0 i j : 0 < attention R i j by rewrite ME divr_gt0 ?(exp_gt0 eE).
split=> [i j|i j _|i j m|i j m]; [exact: ltW|exact: M0| |].
  rewrite one !inE => jS /eqP ->.
  rewrite !ME mulrA; apply: ler_wpmul2r; first by rewrite invr_ge0 ltW.
  have eT : eps1 = e (- T) by rewrite (expN eE) (lnK lE) ?invr_gt0 // invrK.
  rewrite [X in X * _]eT -(expD eE) (exp_le eE) !logitE unit_keys // mulr1.
  apply: le_trans (_ : 2%:R * T * 2%:R^-1 <= _).
    apply: ler_wpmul2l; first by rewrite mulr_ge0 ?ler0n.
    by have /forallP/(_ (want i))/forallP/(_ j) := ap; rewrite eq_sym jS.
  by rewrite le_eqVlt; apply/orP; left; apply/eqP; field.
rewrite one !inE => /eqP -> /eqP ->; have Aw : 0 < A i (want i).
  by have : want i \in S A i; [rewrite one inE | rewrite inE].
rewrite !divff ?oner_neq0 ?gt_eqF // ler_addl; by case/andP: e2 => /ltW.
Qed.
(* Theorem 9.4 (Interpolated projection), k = 1, for signs *)
Theorem interpolated : 8%:R * l (n%:R ^+ 2 / delta) <= d%:R ->
  exists2 good : {set 'M[bool]_(n, d)}, 1 - delta <= chance F good &
  forall B, B \in good -> follows eps1 eps2 A (attention (signs F B)).
Proof.
move=> enough; have [dl0 dl1] := andP delta1.
have big : 1 < n%:R ^+ 2 / delta :> F.
  rewrite ltr_pdivl_mulr // mul1r (lt_le_trans dl1) // exprn_ege1 // ler1n //.
have p0 : 0 < n%:R ^+ 2 / delta := lt_trans ltr01 big.
have d0 : (0 < d)%N.
  rewrite -(ltr_nat F); apply: lt_le_trans enough; rewrite mulr_gt0 ?ltr0n //.
  by rewrite -(exp_lt eE) (exp0 eE) (lnK lE).
exists [set B | apart (signs F B)] => [|B]; last by rewrite inE; apply: apart_follows.
have far : chance F [set B : 'M[bool]_(n, d) | ~~ apart (signs F B)] <= delta.
  apply: le_trans (few_lean eE n d0) _.
  have en : e (- (d%:R * 8%:R^-1)) <= (n%:R ^+ 2 / delta)^-1.
    rewrite -(lnK lE p0) -(expN eE) (exp_le eE) ler_oppl opprK.
    by rewrite ler_pdivl_mulr ?ltr0n // mulrC.
  apply: le_trans (ler_wpmul2l _ en) _; first exact: sqr_ge0.
  by rewrite invf_div mulrC divfK // expf_neq0 // pnatr_eq0 -lt0n.
rewrite ler_subl_addr; apply: le_trans (ler_add (lexx _) far).
rewrite /chance -mulrDl ler_pdivl_mulr ?total // mul1r -natrD ler_nat.
rewrite -cardsT -[X in (X <= _)%N](cardsID [set B | apart (signs F B)]) setTI leq_add2l.
by apply: subset_leq_card; apply/subsetP => B; rewrite !inE andbT.
Qed.
End One.

(* The identity, for any number of tokens *)
Example identity (F : rcfType) (e l : F -> F) n (h := 2%:R^-1 : F) : exponential e -> logarithm e l ->
  exists d, exists B : 'M[bool]_(n.+1, d), follows h h 1%:M (attention e l id h (signs F B)).
Proof.
move=> eE lE; have h1 : 0 < h < 1 by rewrite invr_gt0 ltr0n /= invf_lt1 ?ltr0n ?ltr1n.
have [d xd] := exp_archimedean eE (8%:R * l (n.+1%:R ^+ 2 / h)); exists d.
have [i||good Pg gF] := @interpolated F e l eE lE n.+1 d 1%:M id h h h isT h1 h1 h1.
- by apply/setP => j; rewrite !inE mxE eq_sym; case: eqVneq; rewrite ?ltr01 ?ltxx.
- exact: ltW xd.
have [/set0Pn[B Bg]|] := boolP (good != set0); first by exists B; apply: gF.
rewrite negbK => /eqP g0; move: Pg; rewrite g0 /chance cards0 mul0r subr_le0 leNgt.
by case/andP: h1 => _ ->.
Qed.
